"""Small tables in the layout of the public ones, with invented numbers."""

from itertools import product
from pathlib import Path

from roost_train.interference.public import GAVEL_ISOLATED

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
    return 1.0 / (1.0 + 0.9 / (1.0 + float((other / rate) ** 0.3)))


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
    texts = {
        GAVEL_ISOLATED: "\n".join(isolated) + "\n",
        Path("interference/gavel_pairs_p100_k80.csv"): "\n".join(pairs) + "\n",
    }
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder
