"""Sources of backlogs: the queues that workers of services work off, one file for each kind."""
