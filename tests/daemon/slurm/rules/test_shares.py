"""Parts of the cluster by Slurm's tree of shares."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.slurm_glue.recorded import RELEASES, read

from roost_slurm.text.assoc_mgr import Association, AssocMgr, parse_assoc_mgr
from roostd.slurm.rules.shares import user_shares

ANN, BOB, EVE = 1, 2, 3


def account(name: str, share: float | None = 1.0, parent: str = "root") -> Association:
    return Association(account=name, parent="" if name == "root" else parent, share=share)


def user(user_id: int, of: str, share: float | None = 1.0, partition: str = "") -> Association:
    return Association(account=of, user_id=user_id, share=share, partition=partition)


def shares(*found: Association) -> dict[int, float]:
    root = (account("root"), *found)
    return user_shares(
        AssocMgr({}, {(one.account, one.user_id, one.partition): one for one in root})
    )


@pytest.mark.parametrize("release", RELEASES)
def test_recorded_trees_are_read(release: str) -> None:
    """The root user, bio and phys have a third each; in phys are news, twice, and hep."""
    found = user_shares(parse_assoc_mgr(read(release, "site_assoc_mgr.txt")))
    assert found == pytest.approx({0: 1 / 3, 5: 1 / 3, 9: 2 / 9, 8: 1 / 9})


def test_each_level_divides_what_it_has() -> None:
    found = shares(
        account("physics", 3.0),
        account("biology", 1.0),
        user(ANN, "physics", 2.0),
        user(BOB, "physics", 1.0),
        user(EVE, "biology", 50.0),
    )
    assert found == pytest.approx({ANN: 0.5, BOB: 0.25, EVE: 0.25})


def test_a_user_with_several_associations_has_their_sum() -> None:
    found = shares(user(ANN, "root"), user(ANN, "root", 2.0, "gpu"), user(BOB, "root"))
    assert found == pytest.approx({ANN: 0.75, BOB: 0.25})


def test_what_is_below_an_account_without_a_part_of_its_own_is_one_level_higher() -> None:
    found = shares(
        account("group", None),
        user(ANN, "group", 1.0),
        account("team", 2.0, parent="group"),
        user(BOB, "team", None),
        user(EVE, "root", 1.0),
    )
    assert found == pytest.approx({ANN: 0.25, BOB: 0.5, EVE: 0.25})


def test_shares_of_0_are_0() -> None:
    assert shares(user(ANN, "root", 0.0), user(BOB, "root")) == {ANN: 0.0, BOB: 1.0}
    assert shares(user(ANN, "root", 0.0)) == {ANN: 0.0}


def test_accounts_in_a_circle_or_without_a_parent_are_passed_once() -> None:
    assert shares(account("lost", parent="gone"), user(ANN, "lost")) == {ANN: 1.0}
    circle = (account("a", parent="b"), account("b", parent="a"), user(ANN, "a"))
    assert shares(*circle, user(BOB, "root")) == {BOB: 1.0}


def test_a_site_without_accounting_has_no_shares() -> None:
    assert user_shares(AssocMgr()) == {}


_accounts = st.lists(
    st.tuples(st.integers(0, 6), st.none() | st.integers(0, 9), st.integers(0, 6)), max_size=7
)
_users = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 6), st.none() | st.integers(0, 9)), max_size=9
)


@given(accounts=_accounts, users=_users)
def test_parts_are_never_more_than_all(
    accounts: list[tuple[int, int | None, int]], users: list[tuple[int, int, int | None]]
) -> None:
    found = shares(
        *(account(f"a{name}", share, f"a{parent}") for name, share, parent in accounts),
        *(user(user_id, f"a{of}", share) for user_id, of, share in users),
    )
    assert all(share >= 0.0 for share in found.values())
    assert sum(found.values()) <= 1.0 + 1e-9
