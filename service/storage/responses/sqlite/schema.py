"""The schema of the SQLite store, as numbered migrations. `PRAGMA user_version` is the number of the last one."""

from __future__ import annotations

import sqlite3
from typing import Final

from service.storage.responses.port import StoreFailed

# Each migration is a sequence of statements. A released migration is never changed: a new one follows it.
_MIGRATIONS: Final = (
    (
        """
        CREATE TABLE responses (
            owner TEXT NOT NULL,
            id TEXT NOT NULL,
            created_ns INTEGER NOT NULL,
            previous_id TEXT NOT NULL,
            num_bytes INTEGER NOT NULL,
            request BLOB NOT NULL,
            response BLOB NOT NULL,
            client_data BLOB NOT NULL,
            PRIMARY KEY (owner, id)
        )
        """,
        "CREATE INDEX responses_by_age ON responses (created_ns)",
        "CREATE INDEX responses_by_owner_and_age ON responses (owner, created_ns)",
        # The bytes of each owner, so that no limit needs a scan of all responses.
        "CREATE TABLE usage (owner TEXT PRIMARY KEY, num_bytes INTEGER NOT NULL)",
        # One row: an encrypted value, by which a wrong key is noticed; empty if the content is not encrypted.
        "CREATE TABLE seal (id INTEGER PRIMARY KEY CHECK (id = 1), canary BLOB NOT NULL)",
        """
        CREATE TRIGGER count_stored AFTER INSERT ON responses BEGIN
            INSERT INTO usage VALUES (new.owner, new.num_bytes)
            ON CONFLICT (owner) DO UPDATE SET num_bytes = num_bytes + new.num_bytes;
        END
        """,
        """
        CREATE TRIGGER count_deleted AFTER DELETE ON responses BEGIN
            UPDATE usage SET num_bytes = num_bytes - old.num_bytes WHERE owner = old.owner;
            DELETE FROM usage WHERE owner = old.owner AND num_bytes = 0;
        END
        """,
    ),
    (
        # The events of a background response, stored when it has ended.
        "ALTER TABLE responses ADD COLUMN events BLOB NOT NULL DEFAULT x''",
        # `holder` is the process that generates the response until `lease_ns`, or empty.
        """
        CREATE TABLE jobs (
            owner TEXT NOT NULL,
            id TEXT NOT NULL,
            created_ns INTEGER NOT NULL,
            caller BLOB NOT NULL,
            stream BLOB NOT NULL,
            holder TEXT NOT NULL DEFAULT '',
            lease_ns INTEGER NOT NULL DEFAULT 0,
            num_claims INTEGER NOT NULL DEFAULT 0,
            PRIMARY KEY (owner, id)
        )
        """,
        """
        CREATE TRIGGER count_changed AFTER UPDATE OF num_bytes ON responses BEGIN
            UPDATE usage SET num_bytes = num_bytes + new.num_bytes - old.num_bytes WHERE owner = new.owner;
        END
        """,
        """
        CREATE TRIGGER delete_job AFTER DELETE ON responses BEGIN
            DELETE FROM jobs WHERE owner = old.owner AND id = old.id;
        END
        """,
    ),
    (
        # `num_bytes` counts ids, too, so that empty conversations are limited.
        """
        CREATE TABLE conversations (
            owner TEXT NOT NULL,
            id TEXT NOT NULL,
            created_ns INTEGER NOT NULL,
            updated_ns INTEGER NOT NULL,
            num_bytes INTEGER NOT NULL,
            metadata BLOB NOT NULL,
            PRIMARY KEY (owner, id)
        )
        """,
        "CREATE INDEX conversations_by_age ON conversations (updated_ns)",
        """
        CREATE TABLE items (
            position INTEGER PRIMARY KEY AUTOINCREMENT,
            owner TEXT NOT NULL,
            conversation TEXT NOT NULL,
            id TEXT NOT NULL,
            num_bytes INTEGER NOT NULL,
            item BLOB NOT NULL,
            UNIQUE (owner, conversation, id)
        )
        """,
        "CREATE INDEX items_in_order ON items (owner, conversation, position)",
        """
        CREATE TRIGGER count_added_conversations AFTER INSERT ON conversations BEGIN
            INSERT INTO usage VALUES (new.owner, new.num_bytes)
            ON CONFLICT (owner) DO UPDATE SET num_bytes = num_bytes + new.num_bytes;
        END
        """,
        """
        CREATE TRIGGER count_removed_conversations AFTER DELETE ON conversations BEGIN
            UPDATE usage SET num_bytes = num_bytes - old.num_bytes WHERE owner = old.owner;
            DELETE FROM usage WHERE owner = old.owner AND num_bytes = 0;
        END
        """,
        """
        CREATE TRIGGER count_added_items AFTER INSERT ON items BEGIN
            INSERT INTO usage VALUES (new.owner, new.num_bytes)
            ON CONFLICT (owner) DO UPDATE SET num_bytes = num_bytes + new.num_bytes;
        END
        """,
        """
        CREATE TRIGGER count_removed_items AFTER DELETE ON items BEGIN
            UPDATE usage SET num_bytes = num_bytes - old.num_bytes WHERE owner = old.owner;
            DELETE FROM usage WHERE owner = old.owner AND num_bytes = 0;
        END
        """,
        """
        CREATE TRIGGER count_changed_conversations AFTER UPDATE OF num_bytes ON conversations BEGIN
            UPDATE usage SET num_bytes = num_bytes + new.num_bytes - old.num_bytes WHERE owner = new.owner;
        END
        """,
        """
        CREATE TRIGGER delete_items AFTER DELETE ON conversations BEGIN
            DELETE FROM items WHERE owner = old.owner AND conversation = old.id;
        END
        """,
        # One row: the time that the last process had, by which the next one notices a jump of the clock.
        "CREATE TABLE clock (id INTEGER PRIMARY KEY CHECK (id = 1), seen_ns INTEGER NOT NULL)",
    ),
    (
        """
        CREATE TABLE files (
            owner TEXT NOT NULL,
            id TEXT NOT NULL,
            created_ns INTEGER NOT NULL,
            expires_ns INTEGER NOT NULL,
            filename BLOB NOT NULL,
            num_bytes INTEGER NOT NULL DEFAULT 0,
            num_parts INTEGER NOT NULL DEFAULT 0,
            batch TEXT NOT NULL DEFAULT '',
            is_of_errors INTEGER NOT NULL DEFAULT 0,
            is_complete INTEGER NOT NULL DEFAULT 0,
            PRIMARY KEY (owner, id)
        )
        """,
        "CREATE INDEX files_by_age ON files (created_ns)",
        """
        CREATE TABLE file_parts (
            owner TEXT NOT NULL,
            file TEXT NOT NULL,
            position INTEGER NOT NULL,
            content BLOB NOT NULL,
            PRIMARY KEY (owner, file, position)
        )
        """,
        """
        CREATE TRIGGER delete_file_parts AFTER DELETE ON files BEGIN
            DELETE FROM file_parts WHERE owner = old.owner AND file = old.id;
        END
        """,
        # `num_bytes` counts the requests and results of all lines.
        """
        CREATE TABLE batches (
            owner TEXT NOT NULL,
            id TEXT NOT NULL,
            created_ns INTEGER NOT NULL,
            expires_ns INTEGER NOT NULL,
            description BLOB NOT NULL,
            caller BLOB NOT NULL,
            digest BLOB NOT NULL DEFAULT x'',
            status INTEGER NOT NULL,
            ended_ns INTEGER NOT NULL DEFAULT 0,
            num_bytes INTEGER NOT NULL DEFAULT 0,
            num_lines INTEGER NOT NULL DEFAULT 0,
            num_succeeded INTEGER NOT NULL DEFAULT 0,
            num_failed INTEGER NOT NULL DEFAULT 0,
            is_complete INTEGER NOT NULL DEFAULT 0,
            PRIMARY KEY (owner, id)
        )
        """,
        "CREATE INDEX batches_by_age ON batches (created_ns)",
        "CREATE INDEX batches_by_status ON batches (status, created_ns)",
        # `holder` is the process that answers the line until `lease_ns`, or empty.
        """
        CREATE TABLE batch_lines (
            owner TEXT NOT NULL,
            batch TEXT NOT NULL,
            position INTEGER NOT NULL,
            state INTEGER NOT NULL,
            request BLOB NOT NULL,
            result BLOB NOT NULL,
            holder TEXT NOT NULL DEFAULT '',
            lease_ns INTEGER NOT NULL DEFAULT 0,
            num_claims INTEGER NOT NULL DEFAULT 0,
            PRIMARY KEY (owner, batch, position)
        )
        """,
        "CREATE INDEX waiting_lines ON batch_lines (owner, batch, position) WHERE state = 0",
        "CREATE INDEX held_lines ON batch_lines (holder, owner) WHERE holder != ''",
        """
        CREATE TRIGGER delete_batch_lines AFTER DELETE ON batches BEGIN
            DELETE FROM batch_lines WHERE owner = old.owner AND batch = old.id;
            DELETE FROM files WHERE owner = old.owner AND batch = old.id;
        END
        """,
    ),
    (
        # Seconds between the end of a batch and the expiry of its results; 0 if they are kept as long as the batch.
        "ALTER TABLE batches ADD COLUMN results_lifetime_s INTEGER NOT NULL DEFAULT 0",
    ),
    (
        # The positions of items that were deleted, by a digest of their ids, so that a listing continues after them.
        """
        CREATE TABLE deleted_items (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            owner TEXT NOT NULL,
            conversation TEXT NOT NULL,
            digest BLOB NOT NULL,
            position INTEGER NOT NULL,
            num_bytes INTEGER NOT NULL,
            UNIQUE (owner, conversation, digest)
        )
        """,
        "CREATE INDEX deleted_items_in_order ON deleted_items (owner, conversation, number)",
        """
        CREATE TRIGGER count_added_deleted_items AFTER INSERT ON deleted_items BEGIN
            INSERT INTO usage VALUES (new.owner, new.num_bytes)
            ON CONFLICT (owner) DO UPDATE SET num_bytes = num_bytes + new.num_bytes;
        END
        """,
        """
        CREATE TRIGGER count_removed_deleted_items AFTER DELETE ON deleted_items BEGIN
            UPDATE usage SET num_bytes = num_bytes - old.num_bytes WHERE owner = old.owner;
            DELETE FROM usage WHERE owner = old.owner AND num_bytes = 0;
        END
        """,
        """
        CREATE TRIGGER delete_deleted_items AFTER DELETE ON conversations BEGIN
            DELETE FROM deleted_items WHERE owner = old.owner AND conversation = old.id;
        END
        """,
    ),
    (
        # The times of batches that were deleted, by a digest of their ids, so that a listing continues after them.
        """
        CREATE TABLE deleted_batches (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            owner TEXT NOT NULL,
            digest BLOB NOT NULL,
            created_ns INTEGER NOT NULL,
            ended_ns INTEGER NOT NULL,
            UNIQUE (owner, digest)
        )
        """,
        "CREATE INDEX deleted_batches_in_order ON deleted_batches (owner, number)",
        # The size of the results that a file has, in the form of a client; 0 if it is not known.
        "ALTER TABLE files ADD COLUMN results_bytes INTEGER NOT NULL DEFAULT 0",
    ),
)
VERSION: Final = len(_MIGRATIONS)


def check_version(connection: sqlite3.Connection) -> int:
    """Return the version of a database. Raise StoreFailed for one of a newer release."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > VERSION:
        raise StoreFailed(f"the file has schema version {version}; this release knows versions up to {VERSION}")
    return version


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a database to VERSION, all or nothing. Raise StoreFailed for one of a newer release."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        found = check_version(connection)
        for statements in _MIGRATIONS[found:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
