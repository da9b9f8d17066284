// Reads every array of a Zarr v3 hierarchy with neuroglancer's own parser and decoders, and prints it as JSON:
//   node read.mjs ROOT  ->  { path: { dtype, numpy, shape, base64, attributes, dimension_names } | { refused } }
// Without arguments it answers any number of questions, a JSON list [ROOT] in a line each. Chunks are put together
// here as its data source does it (lib/datasource/zarr/backend.js); its workers are functions of this process.
import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";

const port = { postMessage() {} };
globalThis.self = port;
globalThis.navigator ??= {};
globalThis.Worker = class {
  constructor() {
    port.postMessage = (data) => setTimeout(() => this.onmessage({ data }));
    setTimeout(() => this.onmessage({ data: null }));
  }
  postMessage(message) {
    port.onmessage({ data: message });
  }
};
await import("neuroglancer/unstable/async_computation/decode_blosc.js");
await import("neuroglancer/unstable/async_computation/decode_zstd.js");
const zarr = "neuroglancer/unstable/datasource/zarr";
const { parseV3Metadata } = await import(`${zarr}/metadata/parse.js`);
for (const codec of ["blosc", "bytes", "crc32c", "gzip", "sharding_indexed", "transpose", "zstd"]) {
  await import(`${zarr}/codec/${codec}/resolve.js`);
  await import(`${zarr}/codec/${codec}/decode.js`);
}
const { decodeArray } = await import(`${zarr}/codec/decode.js`);
const { ChunkKeyEncoding } = await import(`${zarr}/metadata/index.js`);
const { DataType, DATA_TYPE_ARRAY_CONSTRUCTOR } = await import("neuroglancer/unstable/util/data_type.js");

const NUMPY = {
  UINT8: "u1", INT8: "i1", UINT16: "<u2", INT16: "<i2", UINT32: "<u4", INT32: "<i4", UINT64: "<u8", FLOAT32: "<f4",
};

// A document that JavaScript cannot parse, such as one with a bare NaN, is the array's own refusal.
function isArray(text) {
  try {
    return JSON.parse(text).node_type === "array";
  } catch {
    return /"node_type":\s*"array"/.test(text);
  }
}

async function* arrays(root, path) {
  const entries = await readdir(join(root, path), { withFileTypes: true });
  if (entries.some((entry) => entry.name === "zarr.json")) {
    const text = await readFile(join(root, path, "zarr.json"), "utf8");
    if (isArray(text)) {
      yield [path, text];
      return;
    }
  }
  for (const entry of entries) {
    if (entry.isDirectory()) yield* arrays(root, path ? `${path}/${entry.name}` : entry.name);
  }
}

const product = (lengths) => lengths.reduce((all, n) => all.flatMap((t) => [...Array(n).keys()].map((i) => [...t, i])), [[]]);

// The values of one chunk or inner chunk, in C order; undefined where it is missing.
async function decoded(codecs, bytes) {
  const sharding = codecs.shardingInfo;
  if (sharding === undefined) return decodeArray(codecs, bytes, undefined);
  const { indexCodecs, indexLocation } = codecs[1].configuration;
  const size = indexCodecs.encodedSize.at(-1);
  const stored = indexLocation === 0 ? bytes.slice(0, size) : bytes.slice(bytes.length - size);
  const raw = await decodeArray(indexCodecs, stored, undefined);
  const index = new BigUint64Array(raw.buffer, raw.byteOffset, raw.byteLength / 8);
  return { index, grid: sharding.subChunkGridShape, shape: sharding.subChunkShape, codecs: sharding.subChunkCodecs, bytes };
}

async function fill(out, metadata, codecs, shape, origin, bytes) {
  const found = await decoded(codecs, bytes);
  if (found.index !== undefined) {
    for (const [at, place] of product(found.grid).entries()) {
      const offset = found.index[2 * at];
      if (offset === 0xffffffffffffffffn) continue;
      const part = bytes.slice(Number(offset), Number(offset + found.index[2 * at + 1]));
      const start = origin.map((n, axis) => n + place[axis] * found.shape[axis]);
      await fill(out, metadata, found.codecs, found.shape, start, part);
    }
    return;
  }
  // A transposed chunk is decoded to the order that is stored; layoutInfo says which.
  const { physicalToLogicalDimension: order } = codecs.layoutInfo[0];
  const stored = order.map((axis) => shape[axis]);
  for (const [at, physical] of product(stored).entries()) {
    const place = [];
    order.forEach((axis, position) => (place[axis] = origin[axis] + physical[position]));
    if (place.some((n, axis) => n >= metadata.shape[axis])) continue;
    out[place.reduce((sum, n, axis) => sum * metadata.shape[axis] + n, 0)] = found[at];
  }
}

async function see(root, path, text) {
  try {
    const metadata = parseV3Metadata(JSON.parse(text), "array");
    const { shape, chunkShape, dataType, fillValue } = metadata;
    const out = new DATA_TYPE_ARRAY_CONSTRUCTOR[dataType](shape.reduce((a, b) => a * b, 1)).fill(fillValue);
    for (const place of product(shape.map((n, axis) => Math.ceil(n / chunkShape[axis])))) {
      const parts = place.map(String);
      const whole = metadata.chunkKeyEncoding === ChunkKeyEncoding.DEFAULT ? ["c", ...parts] : parts.length ? parts : ["0"];
      let bytes;
      try {
        bytes = new Uint8Array(await readFile(join(root, path, whole.join(metadata.dimensionSeparator))));
      } catch (error) {
        if (["ENOENT", "ENOTDIR", "EISDIR"].includes(error.code)) continue;
        throw error;
      }
      await fill(out, metadata, metadata.codecs, chunkShape, place.map((n, axis) => n * chunkShape[axis]), bytes);
    }
    const name = DataType[dataType];
    return {
      dtype: name.toLowerCase(), numpy: NUMPY[name], shape,
      base64: Buffer.from(out.buffer, out.byteOffset, out.byteLength).toString("base64"),
      attributes: metadata.userAttributes, dimension_names: metadata.dimensionNames ?? null,
    };
  } catch (error) {
    return { refused: `${error.name}: ${error.message}` };
  }
}

async function answer(root) {
  const answers = {};
  for await (const [path, text] of arrays(root, "")) answers[path] = await see(root, path, text);
  return JSON.stringify(answers);
}

if (process.argv.length > 2) {
  process.stdout.write(await answer(process.argv[2]));
} else {
  for await (const line of createInterface({ input: process.stdin })) {
    process.stdout.write((await answer(JSON.parse(line)[0])) + "\n");
  }
}
