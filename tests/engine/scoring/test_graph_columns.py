from roost_engine.cluster.features import COLUMNS
from roost_engine.scoring import graph_columns as names


def test_every_level_names_each_column_once() -> None:
    for columns in names.INPUT_COLUMNS.values():
        assert len(set(columns)) == len(columns)


def test_sizes_of_the_inputs_are_those_of_their_columns() -> None:
    for tensor, columns in names.INPUT_COLUMNS.items():
        assert names.INPUT_SIZES[tensor][1] == len(columns)


def test_candidates_begin_with_what_every_score_policy_reads() -> None:
    assert names.CANDIDATE_COLUMNS[: len(COLUMNS)] == COLUMNS
