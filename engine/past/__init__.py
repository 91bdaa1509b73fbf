"""The past: a database as it was at an LSN.

manager.py    which past can be read, by LSN and by time
nodes.py      what a session stands on that reads the past
far.py        moments behind what memory keeps: directories made of checkpoint and log
replay.py     the entries behind a checkpoint, applied to a directory
"""
