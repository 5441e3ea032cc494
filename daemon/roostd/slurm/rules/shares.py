"""The part of the cluster that Slurm's tree of shares promises each user. Pure: no clock, no I/O.

Each account divides what it has among the accounts and users right below it, by their shares
(`Fairshare`, RawShares in sshare). An account with `Fairshare=parent` has no part of its own: what
is below it counts as if it were one level higher. Users with it count like users with a share of 1.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from roost_slurm.text.assoc_mgr import Association, AssocMgr

_ROOT = "root"


def user_shares(accounting: AssocMgr) -> dict[int, float]:
    """Return each user's part of the cluster, 0 to 1, by user id; together they are 1 at most.

    A user with several associations has their sum. Accounts that are not below the root account
    count as if they were right below it.
    """
    below: dict[str, list[Association]] = defaultdict(list)
    known = {one.account for one in accounting.associations.values() if one.user_id is None}
    for one in accounting.associations.values():
        if one.user_id is not None:
            below[one.account].append(one)
        elif one.account != _ROOT:
            below[one.parent if one.parent in known else _ROOT].append(one)
    shares: dict[int, float] = defaultdict(float)
    seen, left = {_ROOT}, [(_ROOT, 1.0)]
    while left:
        account, part = left.pop()
        siblings = list(_siblings(below, account, seen))
        total = sum(_share(one) for one in siblings)
        for one in siblings:
            own = part * _share(one) / total if total else 0.0
            if one.user_id is not None:
                shares[one.user_id] += own
            else:
                left.append((one.account, own))
    return dict(shares)


def _siblings(
    below: dict[str, list[Association]], account: str, seen: set[str]
) -> Iterator[Association]:
    """Yield what divides an account's part; an account is passed once, whatever its parents."""
    left: list[Sequence[Association]] = [below.get(account, ())]
    while left:
        for one in left.pop():
            if one.user_id is not None:
                yield one
            elif one.account not in seen:
                seen.add(one.account)
                if one.share is None:
                    left.append(below.get(one.account, ()))
                else:
                    yield one


def _share(one: Association) -> float:
    return 1.0 if one.share is None else one.share
