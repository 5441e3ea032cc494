"""Job traces: formats, slices, a generator fitted on public ones, and how rows become jobs."""
