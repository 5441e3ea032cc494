import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
from pathlib import Path

import numpy as np
import pytest

from roost_engine.prediction.interference.interference_vector import COLUMN, MASK, fraction
from roost_train.errors import BadTable
from roost_train.interference.pair_tables import read_pair_tables
from roost_train.interference.public import PublicJob


def table(folder: Path, text: str, name: str = "pairs.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def known(row: np.ndarray) -> dict[str, float]:
    return {
        name.removesuffix("_mean"): round(float(row[at]), 4)
        for name, at in COLUMN.items()
        if row[MASK.start + at]
    }


def test_gavels_columns_of_another_gpu_type(tmp_path: Path) -> None:
    text = (
        "gpu_type,model_a,batch_a,model_b,batch_b,steps_per_s_a_colocated,"
        "steps_per_s_b_colocated,steps_per_s_a_isolated,speed_ratio_a,fits_in_memory\n"
        "A100,bert,8,bert,16,8,3,10,0.8,1\n"
        "A100,bert,16,bert,8,3,8,6,0.5,1\n"
        "A100,bert,16,bert,16,,,6,,0\n"
    )
    pairs = read_pair_tables([table(tmp_path, text)])
    assert pairs.a == [PublicJob("a100", "bert", "8"), PublicJob("a100", "bert", "16")]
    np.testing.assert_allclose(pairs.slowdown, -np.log([0.8, 0.5]))
    # 10 steps/s of 8 against 6 of 16, which fill the GPU
    step = round(fraction("step_time", 0.1), 4)
    assert known(pairs.own[0]) == {"sm": round(80 / 96, 4), "step_time": step}
    assert (pairs.own[0] == pairs.beside[1]).all()


def test_both_speeds_of_a_row_are_two_pairs(tmp_path: Path) -> None:
    text = "gpu,job_a,job_b,speed_a,speed_b\nH100,llm,cnn,0.9,0.7\nH100,llm,llm,0.6,0.6\n"
    pairs = read_pair_tables([table(tmp_path, text)])
    np.testing.assert_allclose(np.exp(-pairs.slowdown), [0.9, 0.7, 0.6, 0.6])
    assert [(a.model, b.model) for a, b in zip(pairs.a, pairs.b, strict=True)][:2] == [
        ("llm", "cnn"),
        ("cnn", "llm"),
    ]


def test_what_no_table_says_stays_absent(tmp_path: Path) -> None:
    pairs = read_pair_tables([table(tmp_path, "model_a,model_b,speed_ratio_a\nllm,cnn,0.9\n")])
    assert known(pairs.own[0]) == {}
    assert pairs.own[0][-1] == pairs.beside[0][-1] == 1.0  # a job all the same
    assert pairs.a[0].gpu_type == "unnamed"


def test_slices_of_a_gpu_are_types_and_speeds_alone_come_from_another_table(
    tmp_path: Path,
) -> None:
    pairs = table(
        tmp_path,
        "gpu_type,model_a,batch_a,model_b,batch_b,steps_per_s_a\n"
        "a100-2g.10gb,bert,2,gnn,64,4\n"
        "a100-3g.20gb,bert,2,gnn,64,10\n",
    )
    alone = table(
        tmp_path,
        "gpu_type,model,batch_size,median_batch_s,sm_frac,memory_used_frac,power_w\n"
        "a100-2g.10gb,bert,2,0.125,0.9,,\n"
        "a100-3g.20gb,bert,2,0.08,n/a,0.25,100\n",
        "alone.csv",
    )
    found = read_pair_tables([pairs], [alone])
    np.testing.assert_allclose(np.exp(-found.slowdown), [0.5, 0.8])
    assert known(found.own[0]).keys() == {"sm", "step_time"}
    assert known(found.own[1]).keys() == {"memory_used", "power", "step_time"}
    assert known(found.beside[0]) == {}


def test_a_profile_of_three_stages_says_how_busy_gpu_and_network_are(tmp_path: Path) -> None:
    pairs = table(tmp_path, "model_a,model_b,speed_ratio_a\na2c,vgg,0.7\nvgg,a2c,0.8\n")
    stages = table(
        tmp_path,
        "model,num_gpus,iteration_ms,storage_cpu_ms,gpu_ms,network_ms\n"
        "a2c,1,500,480,10,0\nvgg,1,200,20,100,50\n",
        "stages.csv",
    )
    found = read_pair_tables([pairs], [stages])
    step = round(fraction("step_time", 0.2), 4)
    assert known(found.own[1]) == {"sm": 0.5, "nic": 0.25, "step_time": step}


def test_the_table_of_a_site_is_read(tmp_path: Path) -> None:
    text = "model,beside,speed,spread\nbert,ncf,0.97,0.02\nncf,bert,0.93,0.03\n"
    pairs = read_pair_tables([table(tmp_path, text)])
    assert [job.model for job in pairs.a] == ["bert", "ncf"]
    np.testing.assert_allclose(np.exp(-pairs.slowdown), [0.97, 0.93])


def test_what_a_sites_table_says_of_a_job_is_not_said_of_the_one_beside_it(tmp_path: Path) -> None:
    text = "model,beside,steps_per_s,alone,sm_frac\nbert,ncf,80,100,0.9\nncf,bert,30,50,\n"
    pairs = read_pair_tables([table(tmp_path, text)])
    np.testing.assert_allclose(np.exp(-pairs.slowdown), [0.8, 0.6])
    assert known(pairs.own[1]) == {"step_time": round(fraction("step_time", 0.02), 4)}


def test_a_row_that_did_not_fit_needs_no_speed_alone(tmp_path: Path) -> None:
    text = "model_a,model_b,speed_a,steps_per_s_a,fits\nbert,ncf,0.8,,1\ncnn,ncf,,0,0\n"
    assert len(read_pair_tables([table(tmp_path, text)])) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("model_a,model_b,speed_ratio_a\n,cnn,0.5\n", ":2: no model_a; want the names"),
        ("model,beside,speed\nbert,,0.5\n", ":2: beside is empty; want the name of the other"),
        ("one,two,three\n1,2,3\n", ":2: no model_a; want the names of two jobs"),
        ("model_a,model_b,speed_ratio_a\na,b,0.9\na,b,85\n", ":3: speed ratio 85; want"),
        ("model_a,model_b,speed_ratio_a\na,b,0\n", ":2: speed ratio 0; want"),
        ("model_a,model_b,speed_ratio_a\na,b,-1\n", ":2: speed ratio -1; want"),
        ("model_a,model_b,speed_ratio_a\na,b,slow\n", ":2: speed_ratio_a is 'slow'"),
        ("model_a,model_b,steps_per_s_a\na,b,4\n", ":2: a speed beside another and none"),
        ("model_a,model_b,speed_ratio_a\na,b,\n", "pairs.csv: no pair has a speed"),
        ("model_a,model_b,speed_ratio_a\n", "pairs.csv: no pair has a speed"),
        ("model_a,model_b,speed_ratio_a,fits\na,b,1,maybe\n", ":2: fits_in_memory is 'maybe'"),
        ("model_a,model_b,speed_a,isolated_a\na,b,1,-4\n", ":2: steps_per_s_isolated_a is -4"),
    ],
)
def test_a_bad_row_is_named_with_line_and_cure(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(BadTable) as refused:
        read_pair_tables([table(tmp_path, text)])
    assert said in str(refused.value)
