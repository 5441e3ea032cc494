"""Short names of GPU models."""

import pytest

from roost_slurm.hooks import heartbeat
from roost_slurm.site import gpu_models


@pytest.mark.parametrize(
    ("model", "short"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("Tesla V100-SXM2-16GB", "v100"),
        ("Tesla T4", "t4"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA GeForce RTX 3090", "rtx3090"),
        ("NVIDIA RTX A6000", "a6000"),
        ("Quadro RTX 6000", "rtx6000"),
        ("NVIDIA GH200 480GB", "gh200"),
        ("NVIDIA TITAN RTX", "rtx"),
    ],
)
def test_shortens_model_names(model: str, short: str) -> None:
    assert gpu_models.short_name(model) == short


@pytest.mark.parametrize("model", ["", "NVIDIA", "Tesla ", "東京"])
def test_a_name_of_which_nothing_is_left_is_refused(model: str) -> None:
    with pytest.raises(ValueError, match="no short name for GPU model"):
        gpu_models.short_name(model)


def test_capitals_and_spaces_do_not_matter() -> None:
    assert gpu_models.short_name("  nvidia  h100  80gb ") == "h100"


def test_a_short_name_is_one_of_the_heartbeat() -> None:
    # roostd writes it there for job_submit.lua.
    for model in ("NVIDIA A100-SXM4-80GB", "NVIDIA GeForce RTX 3090", "Quadro RTX 6000"):
        assert heartbeat.is_name(gpu_models.short_name(model))
