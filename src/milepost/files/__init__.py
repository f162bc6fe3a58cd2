"""All file access of milepost: the disk, a copy-on-write view of it, and a bounded pool of open files.

Nobody else opens, writes, renames or maps a file. That makes three things possible: tests record every call and
replay each disk state a crash could leave, a log is opened read-only by giving the same code an `Overlay`,
and ten thousand partitions fit into a thousand descriptors.
"""

from milepost.files.disk import Disk
from milepost.files.handles import Handle, HandlePool
from milepost.files.memory import file_in_memory
from milepost.files.overlay import Overlay
from milepost.files.whole import make_directories, opened, read_file, remove_file, remove_files, replace_file, write_file

__all__ = [
    "Disk",
    "Handle",
    "HandlePool",
    "Overlay",
    "file_in_memory",
    "make_directories",
    "opened",
    "read_file",
    "remove_file",
    "remove_files",
    "replace_file",
    "write_file",
]
