"""GPU health: how fast logs are read, how fast machines are cordoned, what the agent costs while idle.

`python -m perf.gpu_health logs|healing|agent` prints a table each; without a name all three.

logs: a kernel log is written by a seed: lines of a busy machine, one in two thousand of the driver, and of
those one in four a fault. Both sides read the same file in the same run; what is compared is their own CPU.
`grep -c Xid` only counts lines that hold three letters. Required: at least a tenth of its lines per second,
and no more memory for the whole log than for a hundredth of it (8 MB apart).

healing: 1,500 machines of a fake API server with the semantics of a real one. So many of them report a fatal
fault at the same moment; breaker and room are raised. Time is simulated: each call to the API takes 5 ms, the
client's rate limits hold, two processes take rows with two threads each for the cluster, as one sweeper and
one Celery worker do, and agents deliver within a second. Own CPU does not count as time, so that the
machine's noise does not; it is told per fault, and a row tells the latency with it. NVSentinel's figures are
published for 1,503 machines of a real cluster.

agent: the node agent of a machine on which nothing happens.
"""
