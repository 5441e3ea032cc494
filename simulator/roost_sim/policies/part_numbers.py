"""Numbers in the name of a policy's part: `delay:longest_s=14400`, `learned:ageing=0.5`."""

from roost_sim.errors import SimError


class PartNumbersError(SimError):
    """The numbers in the name of a part cannot be used."""


def parse_numbers(name: str) -> dict[str, float]:
    """Read the numbers of a name such as `delay:longest_s=14400`.

    Raises:
        PartNumbersError: something is not KEY=NUMBER.
    """
    found: dict[str, float] = {}
    for word in name.split(":")[1:]:
        key, _, value = word.partition("=")
        try:
            found[key] = float(value)
        except ValueError as error:
            raise PartNumbersError(f"{name}: {word!r} is not KEY=NUMBER") from error
    return found
