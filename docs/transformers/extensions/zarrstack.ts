// Reads arrays whose `zarr.json` names layers of zarrstack, through zarrita.js. It follows stored-format.md.
import * as zarr from "zarrita";
import type { AbsolutePath, AsyncReadable, RangeQuery } from "zarrita";

export class LayerError extends Error {}

type Store = Required<AsyncReadable>;
type Json = Record<string, any>;

const GUARD = "zarrstack.storage_transformers";
const MISSING = 2n ** 64n - 1n;
const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function check(holds: boolean, message: string): asserts holds {
  if (!holds) throw new LayerError(message);
}

function only(value: unknown, names: string[], what: string): Json {
  check(isObject(value), `${what} is not an object`);
  for (const name of Object.keys(value)) check(names.includes(name), `${what} has an unknown member ${name}`);
  return value;
}

function entryOf(entry: unknown): { name: string; configuration: Json; mustUnderstand: boolean } {
  const found = typeof entry === "string" ? { name: entry } : entry;
  const members = only(found, ["name", "configuration", "must_understand"], "an entry");
  const { name, configuration = {}, must_understand: mustUnderstand = true } = members;
  check(typeof name === "string" && typeof mustUnderstand === "boolean", "an entry is malformed");
  check(isObject(configuration), `the configuration of ${name} is not an object`);
  return { name, configuration, mustUnderstand };
}

const CRC = Uint32Array.from({ length: 256 }, (_, value) => {
  for (let bit = 0; bit < 8; bit++) value = (value >>> 1) ^ (value & 1 ? 0x82f63b78 : 0);
  return value;
});

function crc32c(data: Uint8Array): number {
  let value = 0xffffffff;
  for (const byte of data) value = (value >>> 8) ^ CRC[(value ^ byte) & 255];
  return (value ^ 0xffffffff) >>> 0;
}

/** The first byte of a range and the one after the last. */
function bounds(length: number, range: RangeQuery = { offset: 0, length }): [number, number] {
  if ("suffixLength" in range) return [Math.max(0, length - range.suffixLength), length];
  return [Math.min(range.offset, length), Math.min(range.offset + range.length, length)];
}

/** The store that a layer of shards is to the one above it. */
function sharding(below: Store, options: Json, root: AbsolutePath, document: Json): Store {
  only(options, ["chunks_per_shard", "index_codecs", "index_location"], "the configuration of sharding");
  const axes: number = document.shape.length;
  const { chunks_per_shard: given, index_location: location = "end" } = options;
  check(Array.isArray(given) && given.every((n) => Number.isInteger(n) && n > 0), "chunks_per_shard is invalid");
  check(given.length <= axes || (axes === 0 && String(given) === "1"), "chunks_per_shard has too many numbers");
  const counts: number[] = Array.from({ length: axes }, (_, axis) => given[axis] ?? 1);
  const chunks = counts.reduce((product, n) => product * n, 1);
  check(chunks <= 2 ** 26, "a shard has too many chunks");
  check(location === "start" || location === "end", "index_location is invalid");
  const { index_codecs: codecs = [{ name: "bytes", configuration: { endian: "little" } }] } = options;
  check(Array.isArray(codecs), "index_codecs is no list");
  const [bytes, crc, ...more] = codecs.map(entryOf);
  const endian = bytes && only(bytes.configuration, ["endian"], "bytes").endian;
  check(bytes?.name === "bytes" && (endian === "little" || endian === "big"), "index_codecs need bytes with endian");
  check(more.length === 0 && (crc === undefined || crc.name === "crc32c"), "index_codecs are unknown");
  if (crc) only(crc.configuration, [], "crc32c");
  const size = 16 * chunks + (crc ? 4 : 0);

  const encoding = entryOf(document.chunk_key_encoding);
  const isDefault = encoding.name === "default";
  check(isDefault || encoding.name === "v2", "the chunk key encoding is unknown");
  const { separator = isDefault ? "/" : "." } = only(encoding.configuration, ["separator"], "the key encoding");
  check(separator === "/" || separator === ".", "the separator is invalid");

  /** Key of the shard and position of the chunk in its index; undefined if the key is not that of a chunk. */
  function locate(key: AbsolutePath): [AbsolutePath, number] | undefined {
    const parts = key.slice(root.length).split(separator);
    if (isDefault && parts.shift() !== "c") return undefined;
    if (axes === 0) return parts.join() === (isDefault ? "" : "0") ? [key, 0] : undefined;
    if (parts.length !== axes || !parts.every((part) => /^(0|[1-9]\d*)$/.test(part))) return undefined;
    const shard = counts.map((n, axis) => Math.floor(Number(parts[axis]) / n));
    const position = counts.reduce((sum, n, axis) => sum * n + (Number(parts[axis]) % n), 0);
    return [`${root}${(isDefault ? ["c", ...shard] : shard).join(separator)}`, position];
  }

  /** The entry of a chunk, after the checks that need only the index; undefined if the chunk is absent. */
  async function find(shard: AbsolutePath, position: number): Promise<[offset: number, length: number] | undefined> {
    const where = location === "end" ? { suffixLength: size } : { offset: 0, length: size };
    const index = await below.getRange(shard, where);
    if (index === undefined) return undefined;
    check(index.length === size, `${shard} is shorter than its index`);
    const view = new DataView(index.buffer, index.byteOffset, size);
    const sound = !crc || view.getUint32(16 * chunks, true) === crc32c(index.subarray(0, 16 * chunks));
    check(sound, `${shard}: the checksum of the index is wrong`);
    const number = (at: number) => view.getBigUint64(8 * at, endian === "little");
    const filled: [bigint, bigint][] = [];
    for (let at = 0; at < chunks; at++) {
      const [offset, length] = [number(2 * at), number(2 * at + 1)];
      check((offset === MISSING) === (length === MISSING), `${shard}: a chunk is half missing`);
      if (offset !== MISSING && length > 0n) filled.push([offset, offset + length]);
    }
    filled.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    filled.forEach(([start], at) => check(at === 0 || filled[at - 1][1] <= start, `${shard}: chunks overlap`));
    const [offset, length] = [number(2 * position), number(2 * position + 1)];
    if (offset === MISSING) return undefined;
    const end = offset + length + (location === "end" ? BigInt(size) : 0n);
    const last: RangeQuery = { offset: Number(end) - 1, length: 1 };
    const proof = end <= Number.MAX_SAFE_INTEGER ? await below.getRange(shard, last) : undefined;
    check(proof?.length === 1 && (location === "end" || offset >= size), `${shard}: a chunk lies outside`);
    return [Number(offset), Number(length)];
  }

  async function read(key: AbsolutePath, range?: RangeQuery): Promise<Uint8Array | undefined> {
    const place = locate(key);
    if (place === undefined) return range ? below.getRange(key, range) : below.get(key);
    const chunk = await find(...place);
    if (chunk === undefined) return undefined;
    const [offset, length] = chunk;
    const [start, stop] = bounds(length, range);
    if (start === stop) return new Uint8Array();
    const data = await below.getRange(place[0], { offset: offset + start, length: stop - start });
    check(data?.length === stop - start, `${key} was changed while it was read`);
    return data;
  }
  return { get: (key) => read(key), getRange: read };
}

/** The store that a layer of checksums is to the one above it. */
function checksum(below: Store, options: Json, root: string): Store {
  const { unknown = "refuse" } = only(options, ["unknown"], "the configuration of checksum");
  check(unknown === "refuse" || unknown === "pass", "unknown is invalid");
  const isRecord = (key: string) => key.split("/").some((name) => name.endsWith(".crc32c"));
  check(!isRecord(root), "the path of the array looks like a record");

  async function read(key: AbsolutePath): Promise<Uint8Array | undefined> {
    if (isRecord(key)) return undefined;
    for (let before: string | undefined; ; ) {
      const data = await below.get(key);
      const record = await below.get(`${key}.crc32c`);
      const state = data ? `crc32c ${crc32c(data).toString(16).padStart(8, "0")} ${data.length}` : "absent";
      if (record === undefined && (!data || unknown === "pass")) return data;
      const text = record && String.fromCharCode(...record);
      const sound = text !== undefined && /^((crc32c [0-9a-f]{8} (0|[1-9]\d*)|absent)\n)+$/.test(text);
      if (sound && text.split("\n").includes(state)) return data;
      check(before !== `${state}|${text}`, `${key} is damaged or lost: found ${state}, recorded ${text ?? "nothing"}`);
      before = `${state}|${text}`; // a writer may have been between the two
    }
  }
  const getRange = async (key: AbsolutePath, range: RangeQuery) => {
    const data = await read(key);
    return data?.subarray(...bounds(data.length, range));
  };
  return { get: read, getRange };
}

/** The array at a path of a store that can read ranges, read through the layers that its document names. */
export async function openArray(store: Store, path: AbsolutePath = "/"): Promise<zarr.Array<zarr.DataType, Store>> {
  const root = path.endsWith("/") ? path : (`${path}/` as AbsolutePath);
  const key: AbsolutePath = `${root}zarr.json`;
  const content = await store.get(key);
  check(content !== undefined, `${key} is missing`);
  const { storage_transformers: list, [GUARD]: guard, ...document } = JSON.parse(new TextDecoder().decode(content));
  const entries = list ?? [];
  check(Array.isArray(entries), "storage_transformers is not a list");
  check(guard === undefined || entries.length > 0, "the layers of the array are missing");
  const layers = entries.map(entryOf);
  const checksums = layers.filter(({ name }) => /^(zarrstack\.)?checksum$/.test(name));
  check(checksums.length <= 1, "there is more than one layer of checksums");
  const top = layers.reduceRight((below, { name, configuration, mustUnderstand }) => {
    if (/^(zarrstack\.)?sharding$/.test(name)) return sharding(below, configuration, root, document);
    if (/^(zarrstack\.)?checksum$/.test(name)) return checksum(below, configuration, root);
    if (/^(zarrstack\.)?readonly$/.test(name)) only(configuration, [], name);
    else check(!mustUnderstand, `the layer ${name} is unknown`);
    return below;
  }, store);
  const plain = new TextEncoder().encode(JSON.stringify(document));
  const opened = { ...top, get: async (each: AbsolutePath) => (each === key ? plain : top.get(each)) };
  return zarr.open.v3(zarr.root(opened).resolve(path), { kind: "array" });
}
