"""Where the runs of a search are made: in this process, in forks, by workers on a cluster."""
