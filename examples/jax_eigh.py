"""Eigenvectors of a jax.Array on several processes: mpiexec -n 4 python -m mpi4py examples/jax_eigh.py"""

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from mpi4py import MPI

import pyscalapack_redist as psr

if MPI.COMM_WORLD.size > 1:
    jax.distributed.initialize(cluster_detection_method="mpi4py")
jax.config.update("jax_enable_x64", True)

n = 100 * jax.device_count()
rows = NamedSharding(Mesh(np.array(jax.devices()), ["rows"]), PartitionSpec("rows"))
i, j = np.ogrid[:n, :n]
a = jax.make_array_from_callback((n, n), rows, lambda part: 1 / (1.0 + abs(i[part[0]] - j)))

w, v = psr.linalg.eigh(a)  # by ScaLAPACK: jax.Arrays, v in the sharding of a

residual = psr.linalg.norm(psr.linalg.matmul(a, v) - v * w) / psr.linalg.norm(a)
if jax.process_index() == 0:
    print(f"eigenvalues from {w[0]:.6f} to {w[-1]:.6f}, v over {v.sharding.spec}, relative residual {residual:.1e}")
