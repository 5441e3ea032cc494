"""Many runs: on all cores or on Ray, with intervals, tables and an HTML report."""
