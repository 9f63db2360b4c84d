"""Files at addresses, by the protocols of `files`.

- `connect` finds the server of an address, and asks it; `path` is what can be asked, and `s3` and
  `web` are the servers with answers of their own; `faults` says what to try again, and what failed
- `file` is a file that is read by ranges; `fetched` are files that were fetched whole
- `states` says what servers and listings know of files; `folder` are those of a Zarr store together
- `new` are files and stores to write
"""
