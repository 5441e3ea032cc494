"""How generated users repeat their jobs: figures fitted on a public trace. Printed by a program.

Written by benchmarks/fit_histories.py, which says how; do not edit. Source of the trace:
Helios: SenseTime, HeliosData (CC-BY-4.0), Hu et al., SC 2021; the users of June 2020. It has no job
names: what a user submits again under one name is inferred from GPUs and run times.
"""

from roost_sim.traces.histories import HistoryModel, LogNormal

HELIOS_USERS = HistoryModel(
    source="Helios Venus, June 2020",
    new_user_frac=0.0185,
    user_memory=1680,
    session_jobs=LogNormal(0.961, 1.13),
    switch_frac=0.157,
    switch_between_frac=0.95,
    new_kind_frac=0.158,
    known_name_frac=0.3,
    patience_s=LogNormal(6.67, 1.4),
    gap_s=LogNormal(3.24, 3.47),
    user_share=0.28,
    kind_share=0.102,
    repeat_frac=0.655,
    repeat_depth=2.81,
    repeat_sigma=LogNormal(-4.86, 0.712),
    ends=(
        (0.163, 0.486, 0.351),
        (0.251, 0.471, 0.278),
        (0.494, 0.21, 0.296),
        (0.455, 0.19, 0.356),
        (0.423, 0.189, 0.388),
        (0.431, 0.131, 0.437),
        (0.611, 0.0657, 0.323),
        (0.79, 0.0213, 0.189),
        (0.757, 0.0639, 0.179),
        (0.607, 0.063, 0.33),
    ),
)

HISTORIES = {"helios": HELIOS_USERS}
