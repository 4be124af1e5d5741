"""The disk of a host: an in-memory file system with Linux' path semantics, and what a crash leaves.

content     the bytes of one file, and which of them are not yet on the platter
nodes       files, directories, symbolic links
journal     changes of directories, in their order, until they are durable
filesystem  paths and the operations on them; knows neither host nor run
openfile    what a descriptor stands for: position, flags, advisory lock
crash       what a power cut leaves; opens with the model and its reasons
trouble     what a faulty disk does to operations
lower       the program's own files, read from the real disk
process     the file side of one process: descriptors, working directory, umask
calls       what `os`, `io` and `fcntl` ask inside a run
fileio      the raw file below Python's own buffers
databases   what SQLite's file layer does, on these files
disk        `host.disk`: what a test sees and sets
"""
