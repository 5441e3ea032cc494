"""The demonstration's table: one row a job as it starts, and the sum at the end."""

from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

_WIDTHS = {"JOB": 5, "GPUS": 4, "NODES": 7, "ROOSTD CHOSE": 16, "SLURM ALLOCATED": 16}
_RIGHT = {"LINKS": 6, "BEST": 6}
_STOCK = "STOCK SLURM WOULD HAVE TAKEN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One job that has started.

    Attributes:
        chosen, allocated, stock: GPU indices, the same on each node.
        link_score, best_link_score, stock_link_score: sums over the nodes.
    """

    job_id: str
    gpu_count: int
    nodes: tuple[str, ...]
    chosen: tuple[int, ...]
    allocated: tuple[int, ...]
    link_score: int
    best_link_score: int
    stock: tuple[int, ...]
    stock_link_score: int

    @property
    def is_exact(self) -> bool:
        """Slurm gave the job what roostd chose."""
        return self.chosen == self.allocated


def print_head(console: Console) -> None:
    """Print the column heads."""
    heads = [name.ljust(width) for name, width in _WIDTHS.items()]
    heads += [name.rjust(width) for name, width in _RIGHT.items()]
    console.print(Text("  ".join([*heads, " " + _STOCK]), "bold"), soft_wrap=True)


def print_row(console: Console, row: Row) -> None:
    """Print one job; values that differ from the choice stand out."""
    words = (row.job_id, str(row.gpu_count), index_list(row.nodes), *map(index_list, _sets(row)))
    line = Text("  ".join(w.ljust(n) for w, n in zip(words, _WIDTHS.values(), strict=True)))
    if not row.is_exact:
        line.stylize("bold red")
    line.append(f"  {row.link_score:>6}  {row.best_link_score:>6}   ")
    loses = row.stock_link_score < row.link_score
    line.append(f"{index_list(row.stock)} ({row.stock_link_score})", "yellow" if loses else "dim")
    console.print(line, soft_wrap=True)


def print_sum(console: Console, rows: list[Row], job_count: int, seconds: float) -> None:
    """Print the summary of all jobs."""
    exact = sum(row.is_exact for row in rows)
    linked = [row for row in rows if row.best_link_score]
    ours = sum(row.link_score / row.best_link_score for row in linked)
    stock = sum(row.stock_link_score / row.best_link_score for row in linked)
    better = sum(row.link_score > row.stock_link_score for row in rows)
    worse = sum(row.link_score < row.stock_link_score for row in rows)
    console.print()
    console.print(
        f"{exact} of {job_count} jobs ran on exactly the GPUs that roostd chose ({seconds:.0f} s).",
        style="bold green" if exact == job_count else "bold red",
    )
    console.print(
        f"Links, mean of the best possible: {ours / max(len(linked), 1):.0%}. Had Slurm 24.05 or "
        f"later chosen on the same nodes: {stock / max(len(linked), 1):.0%}; "
        f"{better} jobs worse linked than now, {worse} better.",
        soft_wrap=True,
    )


def summary(
    rows: list[Row], backend: str, slurm_version: str, job_count: int, completed_count: int
) -> dict[str, str | int]:
    """Return the last line of the demonstration; link scores are sums over the jobs.

    Args:
        rows: the jobs that have started.
        backend: "slurm" or "embedded".
        slurm_version: of Slurm, or of the release that its stand-in plays.
        job_count: jobs that were submitted.
        completed_count: jobs that have ended.
    """
    return {
        "backend": backend,
        "slurm_version": slurm_version,
        "jobs": job_count,
        "completed": completed_count,
        "as_chosen": sum(row.is_exact for row in rows),
        "link_score": sum(row.link_score for row in rows),
        "best_link_score": sum(row.best_link_score for row in rows),
        "stock_link_score": sum(row.stock_link_score for row in rows),
    }


def index_list(items: tuple[object, ...]) -> str:
    """Join with commas."""
    return ",".join(map(str, items))


def _sets(row: Row) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return row.chosen, row.allocated
