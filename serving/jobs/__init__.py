"""The queue of long work (`app.job`): jobs wait there until a worker takes them, and outlive it.

`queue` decides, by the rules of `job`; where jobs are kept is a `JobStore`: this process, or Redis.
"""
