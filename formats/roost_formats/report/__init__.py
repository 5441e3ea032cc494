"""The report of past jobs: what Roost has gained, or would have, by what the journal says.

Lives here: the figures, how they are computed from a journal, and their JSON, for roostctl
and roostd's page alike.
Does not belong here: how a report is shown.
"""
