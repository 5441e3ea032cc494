"""The variables that Slurm sets for a hook."""

import pytest

from roost_slurm.hooks.hook_env import HookEnv, HookEnvError, parse_env


def test_reads_only_well_formed_variables() -> None:
    env = parse_env(
        {
            "SLURM_JOB_ID": "5",
            "SLURM_JOB_GPUS": "0,1;reboot",
            "CUDA_VISIBLE_DEVICES": "GPU-abc",
            "SLURMD_NODENAME": "n1/../x",
            "SLURM_ARRAY_TASK_ID": "3",
        }
    )
    assert env == HookEnv(job_id=5)
    with pytest.raises(HookEnvError):
        parse_env({})


def test_reads_every_well_formed_variable() -> None:
    env = parse_env(
        {
            "SLURM_JOB_ID": "77",
            "SLURM_ARRAY_JOB_ID": "70",
            "SLURM_ARRAY_TASK_ID": "7",
            "SLURMD_NODENAME": "gpu-1.site",
            "SLURM_JOB_GPUS": "2,3",
            "SLURM_STEP_GPUS": "3",
            "CUDA_VISIBLE_DEVICES": "0,1",
            "NCCL_IB_HCA": "",
            "SLURM_GPUS": "h100:8",
            "SLURM_GPUS_PER_NODE": "4",
        }
    )
    assert env == HookEnv(
        job_id=77,
        array_task=(70, 7),
        node="gpu-1.site",
        job_gpus=(2, 3),
        step_gpus=(3,),
        visible_gpus=(0, 1),
        chooses_nics=True,
        model_counts={"SLURM_GPUS": "8"},
    )


def test_the_job_id_is_that_of_squeue() -> None:
    assert HookEnv(job_id=77).roost_job_id == "77"
    assert HookEnv(job_id=77, array_task=(70, 0)).roost_job_id == "70_0"


@pytest.mark.parametrize("text", ["", "-1", "7.0", " 7", "7\n", "٧", "99999999999"])
def test_a_job_id_that_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(HookEnvError, match="SLURM_JOB_ID is missing or no number"):
        parse_env({"SLURM_JOB_ID": text})


@pytest.mark.parametrize("text", ["0,", ",0", "0,,1", "0-3", "12345", "0\n", "0, 1"])
def test_a_malformed_list_of_gpus_counts_as_none(text: str) -> None:
    assert parse_env({"SLURM_JOB_ID": "5", "SLURM_JOB_GPUS": text}).job_gpus == ()
