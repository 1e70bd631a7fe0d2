"""The schema of the PostgreSQL store, as numbered migrations of its own. The table `version` has the last one's number.

All tables are in the schema `sluice` of the database.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from service.storage.responses.port import StoreFailed

SCHEMA: Final = "sluice"
# Each migration is a sequence of statements. A released migration is never changed: a new one follows it.
_MIGRATIONS: Final = (
    (
        # The bytes of each owner, so that no limit needs a scan of all responses.
        'CREATE TABLE usage (owner TEXT COLLATE "C" PRIMARY KEY, num_bytes BIGINT NOT NULL)',
        """
        CREATE FUNCTION count_bytes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF TG_OP <> 'DELETE' THEN
                INSERT INTO sluice.usage AS total VALUES (NEW.owner, NEW.num_bytes)
                ON CONFLICT (owner) DO UPDATE SET num_bytes = total.num_bytes + excluded.num_bytes;
            END IF;
            IF TG_OP <> 'INSERT' THEN
                UPDATE sluice.usage SET num_bytes = num_bytes - OLD.num_bytes WHERE owner = OLD.owner;
                DELETE FROM sluice.usage WHERE owner = OLD.owner AND num_bytes = 0;
            END IF;
            RETURN NULL;
        END $$
        """,
        """
        CREATE TABLE responses (
            owner TEXT COLLATE "C" NOT NULL,
            id TEXT COLLATE "C" NOT NULL,
            created_ns BIGINT NOT NULL,
            previous_id TEXT COLLATE "C" NOT NULL,
            num_bytes BIGINT NOT NULL,
            request BYTEA NOT NULL,
            response BYTEA NOT NULL,
            client_data BYTEA NOT NULL,
            events BYTEA NOT NULL,
            PRIMARY KEY (owner, id)
        )
        """,
        "CREATE INDEX responses_by_age ON responses (created_ns)",
        "CREATE INDEX responses_by_owner_and_age ON responses (owner, created_ns)",
        # `holder` is the process that generates the response until `lease_ns`, or empty.
        """
        CREATE TABLE jobs (
            owner TEXT COLLATE "C" NOT NULL,
            id TEXT COLLATE "C" NOT NULL,
            created_ns BIGINT NOT NULL,
            caller BYTEA NOT NULL,
            stream BYTEA NOT NULL,
            holder TEXT NOT NULL DEFAULT '',
            lease_ns BIGINT NOT NULL DEFAULT 0,
            num_claims INTEGER NOT NULL DEFAULT 0,
            PRIMARY KEY (owner, id),
            FOREIGN KEY (owner, id) REFERENCES responses ON DELETE CASCADE
        )
        """,
        # `num_bytes` counts ids, too, so that empty conversations are limited.
        """
        CREATE TABLE conversations (
            owner TEXT COLLATE "C" NOT NULL,
            id TEXT COLLATE "C" NOT NULL,
            created_ns BIGINT NOT NULL,
            updated_ns BIGINT NOT NULL,
            num_bytes BIGINT NOT NULL,
            metadata BYTEA NOT NULL,
            PRIMARY KEY (owner, id)
        )
        """,
        "CREATE INDEX conversations_by_age ON conversations (updated_ns)",
        """
        CREATE TABLE items (
            position BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            owner TEXT COLLATE "C" NOT NULL,
            conversation TEXT COLLATE "C" NOT NULL,
            id TEXT COLLATE "C" NOT NULL,
            num_bytes BIGINT NOT NULL,
            item BYTEA NOT NULL,
            UNIQUE (owner, conversation, id),
            FOREIGN KEY (owner, conversation) REFERENCES conversations ON DELETE CASCADE
        )
        """,
        "CREATE INDEX items_in_order ON items (owner, conversation, position)",
        *(
            f"""
            CREATE TRIGGER count_bytes AFTER INSERT OR DELETE OR UPDATE OF num_bytes ON {table}
            FOR EACH ROW EXECUTE FUNCTION count_bytes()
            """
            for table in ("responses", "conversations", "items")
        ),
        """
        CREATE TABLE files (
            owner TEXT COLLATE "C" NOT NULL,
            id TEXT COLLATE "C" NOT NULL,
            created_ns BIGINT NOT NULL,
            expires_ns BIGINT NOT NULL,
            filename BYTEA NOT NULL,
            num_bytes BIGINT NOT NULL DEFAULT 0,
            num_parts INTEGER NOT NULL DEFAULT 0,
            batch TEXT COLLATE "C" NOT NULL DEFAULT '',
            is_of_errors INTEGER NOT NULL DEFAULT 0,
            is_complete INTEGER NOT NULL DEFAULT 0,
            PRIMARY KEY (owner, id)
        )
        """,
        "CREATE INDEX files_by_age ON files (created_ns)",
        """
        CREATE TABLE file_parts (
            owner TEXT COLLATE "C" NOT NULL,
            file TEXT COLLATE "C" NOT NULL,
            position INTEGER NOT NULL,
            content BYTEA NOT NULL,
            PRIMARY KEY (owner, file, position),
            FOREIGN KEY (owner, file) REFERENCES files ON DELETE CASCADE
        )
        """,
        # `num_bytes` counts the requests and results of all lines.
        """
        CREATE TABLE batches (
            owner TEXT COLLATE "C" NOT NULL,
            id TEXT COLLATE "C" NOT NULL,
            created_ns BIGINT NOT NULL,
            expires_ns BIGINT NOT NULL,
            description BYTEA NOT NULL,
            caller BYTEA NOT NULL,
            digest BYTEA NOT NULL DEFAULT '',
            status INTEGER NOT NULL,
            ended_ns BIGINT NOT NULL DEFAULT 0,
            num_bytes BIGINT NOT NULL DEFAULT 0,
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
            owner TEXT COLLATE "C" NOT NULL,
            batch TEXT COLLATE "C" NOT NULL,
            position INTEGER NOT NULL,
            state INTEGER NOT NULL,
            request BYTEA NOT NULL,
            result BYTEA NOT NULL,
            holder TEXT NOT NULL DEFAULT '',
            lease_ns BIGINT NOT NULL DEFAULT 0,
            num_claims INTEGER NOT NULL DEFAULT 0,
            PRIMARY KEY (owner, batch, position),
            FOREIGN KEY (owner, batch) REFERENCES batches ON DELETE CASCADE
        )
        """,
        "CREATE INDEX waiting_lines ON batch_lines (owner, batch, position) WHERE state = 0",
        "CREATE INDEX held_lines ON batch_lines (holder, owner) WHERE holder != ''",
        """
        CREATE FUNCTION delete_results() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            DELETE FROM sluice.files WHERE owner = OLD.owner AND batch = OLD.id;
            RETURN NULL;
        END $$
        """,
        """
        CREATE TRIGGER delete_results AFTER DELETE ON batches FOR EACH ROW EXECUTE FUNCTION delete_results()
        """,
        # One row: an encrypted value, by which a wrong key is noticed; empty if the content is not encrypted.
        "CREATE TABLE seal (id INTEGER PRIMARY KEY CHECK (id = 1), canary BYTEA NOT NULL)",
        # One row: the time that the last process had, by which the next one notices a jump of the clock.
        "CREATE TABLE clock (id INTEGER PRIMARY KEY CHECK (id = 1), seen_ns BIGINT NOT NULL)",
    ),
    (
        # Seconds between the end of a batch and the expiry of its results; 0 if they are kept as long as the batch.
        "ALTER TABLE batches ADD COLUMN results_lifetime_s BIGINT NOT NULL DEFAULT 0",
    ),
    (
        # The positions of items that were deleted, by a digest of their ids, so that a listing continues after them.
        """
        CREATE TABLE deleted_items (
            number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            owner TEXT COLLATE "C" NOT NULL,
            conversation TEXT COLLATE "C" NOT NULL,
            digest BYTEA NOT NULL,
            position BIGINT NOT NULL,
            num_bytes BIGINT NOT NULL,
            UNIQUE (owner, conversation, digest),
            FOREIGN KEY (owner, conversation) REFERENCES conversations ON DELETE CASCADE
        )
        """,
        "CREATE INDEX deleted_items_in_order ON deleted_items (owner, conversation, number)",
        """
        CREATE TRIGGER count_bytes AFTER INSERT OR DELETE OR UPDATE OF num_bytes ON deleted_items
        FOR EACH ROW EXECUTE FUNCTION count_bytes()
        """,
    ),
    (
        # The times of batches that were deleted, by a digest of their ids, so that a listing continues after them.
        """
        CREATE TABLE deleted_batches (
            number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            owner TEXT COLLATE "C" NOT NULL,
            digest BYTEA NOT NULL,
            created_ns BIGINT NOT NULL,
            ended_ns BIGINT NOT NULL,
            UNIQUE (owner, digest)
        )
        """,
        "CREATE INDEX deleted_batches_in_order ON deleted_batches (owner, number)",
        # The size of the results that a file has, in the form of a client; 0 if it is not known.
        "ALTER TABLE files ADD COLUMN results_bytes BIGINT NOT NULL DEFAULT 0",
    ),
)
VERSION: Final = len(_MIGRATIONS)


def check_version(execute: Callable[..., Any], name: str) -> int:
    """Return the version of a database, 0 for one without tables. Raise StoreFailed for one of a newer release."""
    (has_table,) = execute("SELECT to_regclass('sluice.version') IS NOT NULL").fetchone()
    row = execute("SELECT number FROM sluice.version").fetchone() if has_table else None
    version: int = 0 if row is None else row[0]
    if version > VERSION:
        raise StoreFailed(f"{name} has schema version {version}; this release knows versions up to {VERSION}")
    return version


def migrate(execute: Callable[..., Any], name: str) -> None:
    """Bring a database to VERSION, in the transaction of `execute`. Raise StoreFailed for one of a newer release."""
    found = check_version(execute, name)
    if found == VERSION:
        return
    (has_schema,) = execute("SELECT to_regnamespace('sluice') IS NOT NULL").fetchone()
    if not has_schema:
        execute("CREATE SCHEMA sluice")
    if not found:
        execute("CREATE TABLE version (number INTEGER NOT NULL)")
        execute("INSERT INTO version VALUES (0)")
    for statements in _MIGRATIONS[found:]:
        for statement in statements:
            execute(statement)
    execute("UPDATE version SET number = ?", (VERSION,))
