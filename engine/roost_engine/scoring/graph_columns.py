"""What a graph model reads and answers: the tensors of its tree, level by level, by name.

The tree has GPUs, nodes, racks and pods. Each level's numbers are fractions from 0 to 1, so that a
model trained on one cluster reads any other. Page: docs/graph.md.
"""

from roost_engine.cluster.features import COLUMNS

GRAPH_SCHEMA_VERSION = 1  # of everything in this module
HIDDEN = 16  # width of every embedding

LINK_TYPES = ("nvlink", "switch", "far")  # of a pair of GPUs; each pair has one type
GPU_STATE = (
    "free",  # 1: no job holds it, and it is healthy
    "held",  # 1: it is not free
    "duty_frac",  # how much of the time the job that holds it uses what the node shares
    "sm_frac",  # SM activity; 0 where no probe has reported it
    "link_frac",  # the busier of PCIe and NVLink
)
GPU_COLUMNS = (
    *GPU_STATE,
    *(f"{kind}_{column}" for kind in LINK_TYPES for column in GPU_STATE),  # means over such pairs
    *(f"{kind}_pairs_frac" for kind in LINK_TYPES),  # share of the node's other GPUs
)
NODE_COLUMNS = (
    "free_frac",
    "duty_frac",  # mean duty of its GPUs
    "network_frac",  # how busy jobs on several nodes keep its port
    "links_frac",  # mean link of all pairs of GPUs, on the scale of link_scale()
    "nvlinked",  # 1: every pair of GPUs has NVLink
    "potential_frac",  # what its free set is still good for
    "size_frac",  # GPUs of the most that a node may have
    "usable",  # 1: Slurm would start a job there
)
RACK_COLUMNS = (
    "free_frac",
    "idle_frac",  # nodes whose GPUs are all free
    "crossing_frac",  # how busy jobs on several racks keep its uplink
    "size_frac",  # n / (n + 16) for n nodes
)
POD_COLUMNS = ("free_frac", "crossing_frac", "size_frac")  # size: n / (n + 64) for n nodes

JOB_AND_PLACE_COLUMNS = (
    "gpus_frac",  # log2 of the job's GPUs, over 10
    "nodes_frac",  # log2 of its nodes, over 10
    "racks_frac",  # log2 of the racks that the candidate spans, over 6
    "local_frac",  # communication of the job's step on one node
    "rack_frac",  # in one rack
    "across_frac",  # across racks
    "here_frac",  # at the candidate's tier
    "duty_frac",  # how much of the time it would use what its nodes share
    "nvlinked_frac",  # nodes of the candidate where every pair has NVLink
    "pressure_frac",  # duty of the GPUs beside it, on the node where it is highest
    "neighbour_duty_frac",  # duty of the jobs beside it, summed, mean over nodes
    "port_frac",  # how busy others keep the busiest of its nodes' ports
    "uplink_frac",  # the same of its racks' uplinks; 0 in one rack
    "pod_uplink_frac",  # the same of its pods' uplinks; 0 in one pod
    "broken_frac",  # its nodes that were idle and would be left in part
    "stretch_frac",  # duty times pressure
    "stretch_caused_frac",  # duty times that of its neighbours, by its share of the node
    "crossing_frac",  # communication here times the busiest of ports and uplinks
)
CANDIDATE_COLUMNS = (*COLUMNS, *(f"graph_{name}" for name in JOB_AND_PLACE_COLUMNS))
CONTEXT_LEVELS = ("gpus", "nodes", "racks", "pods", "cluster")  # of a candidate's own embeddings
CONTEXT_WIDTH = len(CONTEXT_LEVELS) * HIDDEN

GPUS, GPU_SHARES = "gpus", "gpu_shares"
NODES, NODE_REST, NODE_SHARES = "nodes", "node_rest", "node_shares"
RACKS, RACK_REST, RACK_SHARES = "racks", "rack_rest", "rack_shares"
PODS, POD_REST = "pods", "pod_rest"
CANDIDATES, CONTEXT = "candidates", "context"
GPU_EMBEDDINGS, NODE_EMBEDDINGS = "gpu_embeddings", "node_embeddings"
RACK_EMBEDDINGS, POD_EMBEDDINGS = "rack_embeddings", "pod_embeddings"
SCORE = "score"

INPUT_SIZES: dict[str, tuple[int | str, int | str]] = {
    GPUS: ("gpu", len(GPU_COLUMNS)),
    GPU_SHARES: ("node", "gpu"),
    NODE_REST: ("node", HIDDEN),
    NODES: ("node", len(NODE_COLUMNS)),
    NODE_SHARES: ("rack", "node"),
    RACK_REST: ("rack", HIDDEN),
    RACKS: ("rack", len(RACK_COLUMNS)),
    RACK_SHARES: ("pod", "rack"),
    POD_REST: ("pod", HIDDEN),
    PODS: ("pod", len(POD_COLUMNS)),
    CANDIDATES: ("candidate", len(CANDIDATE_COLUMNS)),
    CONTEXT: ("candidate", CONTEXT_WIDTH),
}
"""By input: its sizes; a text is the number of that level's items, which differs by call."""

OUTPUT_SIZES: dict[str, tuple[int | str, ...]] = {
    GPU_EMBEDDINGS: ("gpu", HIDDEN),
    NODE_EMBEDDINGS: ("node", HIDDEN),
    RACK_EMBEDDINGS: ("rack", HIDDEN),
    POD_EMBEDDINGS: ("pod", HIDDEN),
    SCORE: ("candidate",),
}
INPUT_COLUMNS = {
    GPUS: GPU_COLUMNS,
    NODES: NODE_COLUMNS,
    RACKS: RACK_COLUMNS,
    PODS: POD_COLUMNS,
    CANDIDATES: CANDIDATE_COLUMNS,
}
