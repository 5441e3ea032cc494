"""Small tables in the layout of the public ones, with invented numbers."""

from itertools import product
from pathlib import Path

from roost_train.interference_public import (
    ALNAIR_PROFILES,
    GAVEL_ISOLATED,
    MISO_MEMORY,
    MISO_TIMES,
    MURI_STAGES,
)

JOBS = {
    ("LM", "5"): 90.0,
    ("LM", "80"): 20.0,
    ("ResNet", "16"): 30.0,
    ("ResNet", "64"): 12.0,
    ("ResNet", "128"): 7.0,
    ("Transformer", "16"): 9.0,
    ("Transformer", "64"): 5.0,
    ("A3C", ""): 5.0,
}
SLOWER = {"p100": 1.0, "k80": 0.4}


def ratio(rate: float, other: float) -> float:
    """Return an invented speed ratio: short steps wait for long ones."""
    return 1.0 / (1.0 + 0.9 * rate**0.3 / (rate**0.3 + other**0.3))


def write_tables(folder: Path) -> Path:
    """Write all tables below a folder, and return it."""
    isolated = ["gpu_type,consolidated,model,batch_size,num_gpus,steps_per_s"]
    pairs = [
        "gpu_type,model_a,batch_a,model_b,batch_b,steps_per_s_a_colocated,"
        "steps_per_s_b_colocated,steps_per_s_a_isolated,speed_ratio_a,fits_in_memory"
    ]
    for gpu, factor in SLOWER.items():
        isolated += [f"{gpu},1,{m},{b},1,{rate * factor}" for (m, b), rate in JOBS.items()]
        isolated.append(f"{gpu},0,LM,5,2,1.0")
        for ((ma, ba), ra), ((mb, bb), rb) in product(JOBS.items(), JOBS.items()):
            found = ratio(ra, rb)
            pairs.append(f"{gpu},{ma},{ba},{mb},{bb},1,1,{ra * factor},{found:.5f},1")
    pairs.append("k80,LM,80,A3C,,,,8,0,0")
    alnair = (
        "Model,Dataset,BS,MGUP,Min_GPU_Util_%,MaGTSAMP,MiGTSAMP,MGMAP,MaGPUPR,MiGPUPR\n"
        "ResNet50,GTSRB,32,80,60,40,20,50,60,40\n"
    )
    texts = {
        GAVEL_ISOLATED: "\n".join(isolated) + "\n",
        Path("interference/gavel_pairs_p100_k80.csv"): "\n".join(pairs) + "\n",
        ALNAIR_PROFILES: alnair,
        MURI_STAGES: "model,batch_size,num_gpus,iteration_ms,storage_cpu_ms,gpu_ms,network_ms\n"
        "bert,4,8,100,20,60,20\n",
        MISO_TIMES: "model,batch_size,mig_compute_slices,median_batch_s\n"
        "bert,2,3,0.2\nbert,2,7,0.1\ngnn,8,7,0.1\n",
        MISO_MEMORY: "model,batch_size,gpu_mem_mib\nbert,2,8192\n",
    }
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder
