"""Errors that the probe raises on purpose.

ProbeError
├── DriverFault      NVML did not answer, or said it cannot; worth another try
└── SettingsError    the command line or a file it names is wrong; no use trying again
"""


class ProbeError(Exception):
    """The root: catch this to catch everything that the probe raises on purpose."""


class DriverFault(ProbeError):
    """The driver gave no answer. The text is for an operator and says what to do."""


class SettingsError(ProbeError):
    """An option, or a file that one names, is wrong."""
