"""The job selector as it plays: weights that stay, and each convolution one matrix.

A few decisions are in a call while episodes are played, and there torch's convolutions cost more
than everything else. These are the matrices of the exported file (`SelectorNet.to_weights`), so an
agent in training decides as the model will.
"""

import torch

from roost_train.networks.selector_net import SelectorNet


class DenseSelector:
    """Answers what a SelectorNet does with the weights that it has now.

    Args:
        net: the selector; what is learned later is not seen.
    """

    def __init__(self, net: SelectorNet) -> None:
        self._weights = {name: torch.tensor(one) for name, one in net.to_weights().items()}

    def __call__(
        self, jobs: torch.Tensor, cluster: torch.Tensor, counts: torch.Tensor
    ) -> torch.Tensor:
        """Return the ranks, [line]; see SelectorNet.forward.

        Queues differ in length, and a batch that is padded to the longest is mostly padding: so the
        jobs of all decisions stand one below the other.

        Args:
            jobs: [line, JOB_COLUMNS], those of the first decision first.
            cluster: [decision, CLUSTER_COLUMNS].
            counts: int64 [decision], jobs of each.
        """
        context, weights = self._context_of(cluster), self._weights
        of_line = torch.repeat_interleave(counts)  # the decision of each line
        image = self._layer("job_conv1", jobs).relu_()
        image = self._layer("job_conv2", image).relu_()
        first = self._layer("head1_context", context, "head1_bias").index_select(0, of_line)
        first.addmm_(image, weights["head1_image"]).addmm_(jobs, weights["head1_numbers"])
        second = self._layer("head2", first.relu_()).relu_()
        ranks = self._layer("head3", second).addmm_(jobs, weights["skip"])
        none = self._layer("none", context).index_select(0, of_line)
        return ranks.sub_(none)[:, 0]

    def _context_of(self, cluster: torch.Tensor) -> torch.Tensor:
        """Return what is known of the cluster, [decision, hidden]."""
        image = self._layer("cluster_conv1", cluster).relu_()
        image = self._layer("cluster_conv2", image).relu_()
        of_image = self._layer("context_image", image, "context_bias")
        return of_image.add_(cluster @ self._weights["context_numbers"]).relu_()

    def _layer(self, name: str, lines: torch.Tensor, bias: str = "") -> torch.Tensor:
        weights = self._weights
        return torch.addmm(weights[bias or f"{name}_bias"], lines, weights[name])
