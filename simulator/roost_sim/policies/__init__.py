"""Published and stock policies, a folder for each step of a pass.

Lives here: order, placement, gate and preemption rules that only simulations run.
Does not belong here: names and compositions (catalogue), and Roost's own policies (roost_engine).
"""
