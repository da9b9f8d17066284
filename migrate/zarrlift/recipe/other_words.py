"""What other programs call our options: the command line and Python functions suggest the right word."""

from __future__ import annotations

from typing import Final


def by_word(words: dict[str, str]) -> dict[str, str]:
    """Ours by each of the words that others have, which are separated by spaces."""
    return {word: ours for ours, others in words.items() for word in others.split()}


OTHER_OPTIONS: Final = by_word(
    {
        "--bwlimit": "bandwidth limit-rate rate",
        "--chunks": "block-size chunk-size output-chunks rechunk",
        "--codecs": "codec compression compressor compressors",
        "--consolidate": "consolidate-metadata consolidated",
        "--delete": "allow-delete cleanup delete-after delete-before delete-during delete-excluded",
        "--dry-run": "dryrun interactive output-write-details plan preview simulate what-if",
        "--dtype": "data-type type",
        "--exclude": "exclude-from",
        "--executor": "backend cluster scheduler",
        "--follow-links": "copy-links links skip-links symlinks",
        "--from": "format from-format input-format source-format zarr-format",
        "--full": "download",
        "--html": "web",
        "--in-place": "inplace remove-v2-metadata",
        "--include": "array files-from filter filter-from include-from",
        "--json": "jq",
        "--link": "hard-links hardlink",
        "--log": "log-file structured-logs use-json-log",
        "--memory": "buffer-size max-memory mem ram",
        "--overwrite": "force output-overwrite replace",
        "--quiet": "silent",
        "--recipe": "config output-read-details",
        "--shards": "output-shards shard-shape shard-size sharding",
        "--source-through": "retries tpslimit",
        "--storage-options": (
            "anon endpoint endpoint-url input-anon input-bucket input-endpoint input-region output-anon "
            "output-bucket output-endpoint output-region profile region s3-access-key-id s3-endpoint "
            "s3-env-auth s3-provider s3-region s3-secret-access-key"
        ),
        "--to": "destination out output template",
        "--verbose": "debug details log-level progress",
        "--no-list": "no-check-dest no-traverse",
        "--verify": "checksum ignore-checksum ignore-size",
        "--watch": "follow",
        "--workers": (
            "checkers concurrency cores cpus jobs multi-thread-streams num-workers output-threads parallel "
            "parallelism processes procs threads transfers"
        ),
        "--yes": "confirm no-confirm no-prompt",
    }
)
"""Options of rclone, gh, zarr, ome2024-ngff-challenge and the like, without hyphens -> ours."""
