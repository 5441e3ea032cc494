"""Which settings of slurm.conf are missed, on what three releases print."""

import pytest
from tests.slurm_glue.recorded import RELEASES, read

from roost_slurm.site.site_check import Level, NotAConfig, check


def prepared(release: str) -> str:
    return read(release, "show_config_prepared.txt")


@pytest.mark.parametrize("release", RELEASES)
def test_a_prepared_site_has_everything(release: str) -> None:
    assert check(prepared(release), uses_models=True) == ()


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    ("old", "new", "cure"),
    [
        ("select/cons_tres", "select/linear", "SelectType=select/cons_tres"),
        ("GresTypes               = gpu", "GresTypes = shard", "Include roost.conf"),
        ("JobSubmitPlugins        = lua", "JobSubmitPlugins = (null)", "JobSubmitPlugins=lua"),
    ],
)
def test_says_what_roost_cannot_do_without(release: str, old: str, new: str, cure: str) -> None:
    text = prepared(release)
    assert old in text
    (finding,) = check(text.replace(old, new))
    assert finding.level is Level.NEEDED
    assert cure in finding.cure


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        (",disable_job_shrink", "", "disable_job_shrink"),
        (",bf_job_part_count_reserve=1", "", "bf_job_part_count_reserve=1"),
        ("batch_sched_delay=0", "batch_sched_delay=3", "batch_sched_delay=0"),
        ("= ACCRUE_ALWAYS", "= ", "ACCRUE_ALWAYS"),
        ("= Alloc", "= Contain", "Alloc"),
        ("PrologEpilogTimeout     = 30", "PrologEpilogTimeout = 65534", "PrologEpilogTimeout=30"),
        ("CliFilterPlugins        = cli_filter/lua", "CliFilterPlugins = (null)", "cli_filter.lua"),
        ("TaskProlog              = /bin/true", "TaskProlog = (null)", "TaskProlog="),
    ],
)
def test_recommends_what_makes_it_better(release: str, old: str, new: str, word: str) -> None:
    text = prepared(release)
    assert old in text
    (finding,) = check(text.replace(old, new), uses_models=True)
    assert finding.level is Level.RECOMMENDED
    assert word in finding.cure
    assert "\n" not in str(finding)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("hook", ["Prolog", "Epilog", "PrologSlurmctld", "EpilogSlurmctld"])
def test_recommends_each_hook_that_is_missing(release: str, hook: str) -> None:
    lines = prepared(release).splitlines()
    kept = [line for line in lines if line.split(" ")[0] not in (hook, f"{hook}[0]")]
    assert len(kept) == len(lines) - 1
    (finding,) = check("\n".join(kept))
    assert finding.problem.startswith(f"no {hook}: ")


@pytest.mark.parametrize("release", RELEASES)
def test_a_plug_in_may_be_named_with_its_kind(release: str) -> None:
    old = "JobSubmitPlugins        = lua"
    text = prepared(release)
    assert old in text
    assert check(text.replace(old, "JobSubmitPlugins = job_submit/lua")) == ()


@pytest.mark.parametrize("release", RELEASES)
def test_a_bare_site_needs_the_script_first_of_all(release: str) -> None:
    findings = check(read(release, "show_config.txt"))
    assert "JobSubmitPlugins has no lua" in findings[0].problem
    assert {finding.level for finding in findings[1:]} == {Level.RECOMMENDED}
    assert not [finding for finding in findings if "CliFilterPlugins" in finding.problem]


@pytest.mark.parametrize("release", RELEASES)
def test_where_age_does_not_count_it_need_not_accrue(release: str) -> None:
    text = prepared(release).replace("= ACCRUE_ALWAYS", "= ")
    assert check(text.replace("PriorityWeightAge       = 1000", "PriorityWeightAge = 0")) == ()


def test_other_text_is_refused() -> None:
    with pytest.raises(NotAConfig):
        check("slurm_load_ctl_conf error: Unable to contact slurm controller\n")
