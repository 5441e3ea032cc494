"""When waiting jobs are expected to start: played forward in a process of its own.

The forecast is the engine's (`roost_engine.forecast`); its process, schedule and errors are here.
Not here: run times, which the engine's predictors learn.
"""
