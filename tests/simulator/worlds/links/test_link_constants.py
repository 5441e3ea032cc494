"""Link constants: the generation of a GPU model, and the order of the link classes."""

import pytest

from roost_engine.domain.topology import Level
from roost_sim.worlds.links.link_constants import GENERATIONS, generation_of


@pytest.mark.parametrize(
    ("gpu_model", "name"),
    [
        ("p100", "pascal"),
        ("gtx1080ti", "pascal"),
        ("Tesla V100-SXM2-32GB", "volta"),
        ("tesla_t4", "turing"),
        ("NVIDIA A100-SXM4-40GB", "ampere"),
        ("a40", "ampere-ga10x"),
        ("a10", "ampere-ga10x"),
        ("RTX A6000", "ampere-ga10x"),
        ("NVIDIA RTX 6000 Ada Generation", "ada"),
        ("l40s", "ada"),
        ("h100", "hopper"),
        ("GB200", "blackwell"),
        ("", "unknown"),
        ("mi300x", "unknown"),
    ],
)
def test_a_gpu_model_has_its_generation(gpu_model: str, name: str) -> None:
    assert generation_of(gpu_model).name == name


def test_farther_pcie_paths_are_never_faster_and_nvlink_is_faster_than_all() -> None:
    for generation in GENERATIONS:
        widths = [generation.pcie_bytes_per_s[level] for level in Level]
        assert widths == sorted(widths, reverse=True), generation.name
        assert generation.source
        if generation.name in ("pascal", "volta", "turing", "unknown"):  # one lane beats PCIe 3
            assert generation.lane_bytes_per_s > widths[0]
