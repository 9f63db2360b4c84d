"""The format HDF5, also under the names of fields that build on it, such as NetCDF-4.

`files` opens files, finds a dataset and the names of its dimensions, and words h5py's errors; `types` says what its
elements are, and `filters` how its chunks are encoded, which it also does, in the workers. On these stand `source`,
which reads a dataset or says what a file holds, and `sink`, which makes the new file. All of it is loaded when a file
needs it, since h5py takes as long to load as NumPy.
"""

from revseq_cli.formats.hdf5.sink import create_sink
from revseq_cli.formats.hdf5.source import contents, open_source

__all__ = ["contents", "create_sink", "open_source"]
