"""Fidelity: the two settings, and what runs have without one."""

from roost_sim.worlds.fidelity import DEFAULT_FIDELITY, FIDELITIES, Regime, Setting
from roost_sim.worlds.restart_cost import RestartRule


def test_the_settings_differ_in_every_switch() -> None:
    paper, field = FIDELITIES[Setting.PAPER], FIDELITIES[Setting.FIELD]
    assert (paper.is_contended, paper.has_neighbours) == (False, False)
    assert (field.is_contended, field.has_neighbours) == (True, True)
    assert (paper.has_links, field.has_links) == (False, True)
    assert (paper.restart, field.restart) == (RestartRule.DALLY, RestartRule.MEASURED)
    assert (paper.durations, field.durations) == (Regime.ORACLE, Regime.PREDICTED)


def test_the_default_is_field_with_true_run_times_for_oracles() -> None:
    field = FIDELITIES[Setting.FIELD]
    assert DEFAULT_FIDELITY.durations is Regime.ORACLE
    assert DEFAULT_FIDELITY.is_contended == field.is_contended
    assert DEFAULT_FIDELITY.has_links == field.has_links
    assert DEFAULT_FIDELITY.restart is field.restart


def test_regimes_are_listed_from_most_to_least_knowledge() -> None:
    assert list(Regime) == [Regime.ORACLE, Regime.PREDICTED, Regime.LIMIT, Regime.NONE]
