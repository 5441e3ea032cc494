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

    def __call__(self, jobs: torch.Tensor, cluster: torch.Tensor) -> torch.Tensor:
        """Return the ranks, [decision, job]; see SelectorNet.forward."""
        count, most, _ = jobs.shape
        lines = jobs.reshape(count * most, -1)
        context = self._context_of(cluster)
        image = torch.relu(self._layer("job_conv1", lines))
        image = torch.relu(self._layer("job_conv2", image))
        weights = self._weights
        own = image @ weights["head1_image"] + lines @ weights["head1_numbers"]
        shared = torch.addmm(weights["head1_bias"], context, weights["head1_context"])
        first = torch.relu(own.reshape(count, most, -1) + shared[:, None])
        second = torch.relu(self._layer("head2", first.reshape(count * most, -1)))
        ranks = self._layer("head3", second) + lines @ weights["skip"]
        return ranks.reshape(count, most) - self._layer("none", context)

    def _context_of(self, cluster: torch.Tensor) -> torch.Tensor:
        """Return what is known of the cluster, [decision, hidden]."""
        image = torch.relu(self._layer("cluster_conv1", cluster))
        image = torch.relu(self._layer("cluster_conv2", image))
        weights = self._weights
        of_image = torch.addmm(weights["context_bias"], image, weights["context_image"])
        return torch.relu(of_image + cluster @ weights["context_numbers"])

    def _layer(self, name: str, lines: torch.Tensor) -> torch.Tensor:
        return torch.addmm(self._weights[f"{name}_bias"], lines, self._weights[name])
