"""What neighbours cost a job: its load vector, a model, and the table that corrects it.

Not here: what a placement costs the jobs around it, which scoring adds up.
"""
