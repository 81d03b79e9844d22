-- Version 1. Requests compare and write these tables; docs/engine-postgres.md says which request writes what.

-- One row. Its revision is that of the last change of a small key: meta, node, part, note.
CREATE TABLE meta (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    version integer NOT NULL,
    history uuid NOT NULL,
    format integer NOT NULL,
    revision bigint NOT NULL
) WITH (fillfactor = 50);

CREATE SEQUENCE revision AS bigint;

CREATE TABLE node (
    id integer PRIMARY KEY,
    directory uuid NOT NULL,
    incarnation uuid NOT NULL,
    beat_incarnation uuid,
    beat_counter bigint
) WITH (fillfactor = 50);

-- The fence. `history` is that of `meta`, so that a lock on one row guards both. `heads` counts changes of the tail that are
-- no appends: an append that began before such a change is sent again.
CREATE TABLE part (
    p integer PRIMARY KEY,
    history uuid NOT NULL,
    epoch integer NOT NULL,
    node integer NOT NULL,
    incarnation uuid NOT NULL,
    held boolean NOT NULL,
    revision bigint NOT NULL,
    heads bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE TABLE note (
    name text PRIMARY KEY,
    value bytea NOT NULL
);

CREATE TABLE log (
    p integer,
    base_offset bigint,
    epoch integer NOT NULL,
    nonce uuid NOT NULL,
    count bigint NOT NULL,
    bytes bytea NOT NULL,
    revision bigint NOT NULL,
    PRIMARY KEY (p, base_offset)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

CREATE TABLE head (
    p integer PRIMARY KEY,
    upto bigint NOT NULL,
    epoch integer NOT NULL,
    chunks bigint NOT NULL,
    checksum bigint NOT NULL,
    revision bigint NOT NULL
);

CREATE TABLE chunk (
    p integer,
    upto bigint,
    epoch integer,
    index bigint,
    bytes bytea NOT NULL,
    PRIMARY KEY (p, upto, epoch, index)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

-- Batches are compressed already, or small.
ALTER TABLE log ALTER COLUMN bytes SET STORAGE EXTERNAL;
ALTER TABLE chunk ALTER COLUMN bytes SET STORAGE EXTERNAL;
