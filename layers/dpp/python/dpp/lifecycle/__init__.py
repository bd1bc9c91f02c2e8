"""The life of data (002): events become tasks, tasks are run, messages answer, and what has served is thrown away.

The roles are those of the source document: the sentinel takes events in, the king makes tasks of them, the general has
them carried out by soldiers (runs), the envoy sends messages, and the chamberlain deletes.
"""
