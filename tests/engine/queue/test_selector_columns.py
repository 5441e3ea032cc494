"""selector_columns: the columns that a shipped job selector was trained with."""

from roost_engine.queue.selector_columns import (
    CLUSTER_COLUMNS,
    CLUSTER_NUMBERS,
    IMAGE_GPU_COUNT,
    IMAGE_GPUS,
    IMAGE_NODE_COUNT,
    IMAGE_TIMES_S,
    JOB_COLUMNS,
    JOB_NUMBERS,
)


def test_every_column_has_a_name_of_its_own() -> None:
    assert len(set(JOB_COLUMNS)) == len(JOB_COLUMNS)
    assert len(set(CLUSTER_COLUMNS)) == len(CLUSTER_COLUMNS)


def test_the_images_come_first_then_the_numbers() -> None:
    image_size = len(IMAGE_TIMES_S) * len(IMAGE_GPUS)
    assert JOB_COLUMNS[0] == "run_60_1"
    assert JOB_COLUMNS[image_size - 1] == "run_604800_128"
    assert JOB_COLUMNS[image_size:] == JOB_NUMBERS
    assert len(CLUSTER_COLUMNS) == 2 * IMAGE_NODE_COUNT * IMAGE_GPU_COUNT + len(CLUSTER_NUMBERS)
    assert CLUSTER_COLUMNS[-len(CLUSTER_NUMBERS) :] == CLUSTER_NUMBERS
