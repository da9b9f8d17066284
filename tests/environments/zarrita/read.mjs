// Reads every array of a Zarr v3 hierarchy with zarrita.js and prints it as JSON:
//   node read.mjs ROOT  ->  { path: { dtype, numpy, shape, base64 | objects, attributes, dimension_names }
//                             | { refused } }
// Without arguments it answers any number of such questions, a JSON list [ROOT] in a line each,
// with a line of JSON each, until its input ends: starting node takes longer than reading most archives.
// Values are raw bytes in C order and the machine's byte order, so that NaN payloads survive.
import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import * as zarr from "zarrita";

class Folder {
  constructor(root) {
    this.root = root;
  }

  async get(key) {
    try {
      return new Uint8Array(await readFile(join(this.root, key)));
    } catch (error) {
      if (["ENOENT", "ENOTDIR", "EISDIR"].includes(error.code)) return undefined;
      throw error;
    }
  }

  // Shards are read by their parts.
  async getRange(key, range) {
    const bytes = await this.get(key);
    if (bytes === undefined) return undefined;
    if ("suffixLength" in range) return bytes.subarray(Math.max(0, bytes.length - range.suffixLength));
    return bytes.subarray(range.offset, range.offset + range.length);
  }
}

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
    if (isArray(await readFile(join(root, path, "zarr.json"), "utf8"))) {
      yield path;
      return;
    }
  }
  for (const entry of entries) {
    if (entry.isDirectory()) yield* arrays(root, path ? `${path}/${entry.name}` : entry.name);
  }
}

const NUMPY = {
  int8: "i1", int16: "<i2", int32: "<i4", int64: "<i8",
  uint8: "u1", uint16: "<u2", uint32: "<u4", uint64: "<u8",
  float16: "<f2", float32: "<f4", float64: "<f8", bool: "?",
};

function bytesOf(data) {
  const view = data.buffer ? data : new Uint8Array(data);
  return Buffer.from(view.buffer, view.byteOffset ?? 0, view.byteLength);
}

// One value of a 0-d array, as bytes.
function scalarBytes(value, dtype) {
  const view = new DataView(new ArrayBuffer(8));
  const set = {
    int8: ["setInt8", 1], int16: ["setInt16", 2], int32: ["setInt32", 4], int64: ["setBigInt64", 8],
    uint8: ["setUint8", 1], uint16: ["setUint16", 2], uint32: ["setUint32", 4], uint64: ["setBigUint64", 8],
    float32: ["setFloat32", 4], float64: ["setFloat64", 8], bool: ["setUint8", 1],
  }[dtype];
  if (!set) throw new zarr.UnsupportedError(`a 0-d ${dtype}`);
  view[set[0]](0, dtype === "bool" ? Number(value) : value, true);
  return Buffer.from(view.buffer, 0, set[1]);
}

// In C order: zarrita keeps the memory order of transposed chunks and says so in `stride`.
function isC(shape, stride) {
  let step = 1;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    if (shape[axis] > 1 && stride[axis] !== step) return false;
    step *= shape[axis];
  }
  return true;
}

function inC(values, shape, stride) {
  if (isC(shape, stride)) return values;
  // A signalling NaN does not survive as a JavaScript number: floats are carried as integers.
  const data =
    values instanceof Float32Array ? new Uint32Array(values.buffer, values.byteOffset, values.length)
    : values instanceof Float64Array ? new BigUint64Array(values.buffer, values.byteOffset, values.length)
    : values;
  const size = shape.reduce((a, b) => a * b, 1);
  const result = Array.isArray(data) ? new Array(size) : new data.constructor(size);
  const place = shape.map(() => 0);
  for (let index = 0; index < size; index++) {
    const offset = place.reduce((sum, position, axis) => sum + position * stride[axis], 0);
    if (Array.isArray(data)) result[index] = data[offset];
    else if (data.get) result.set(index, data.get(offset));
    else result[index] = data[offset];
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      if (++place[axis] < shape[axis]) break;
      place[axis] = 0;
    }
  }
  return result;
}

async function see(store, path) {
  let array;
  try {
    array = await zarr.open.v3(zarr.root(store).resolve(path), { kind: "array" });
    const told = {
      dtype: String(array.dtype),
      shape: array.shape,
      attributes: array.attrs,
      dimension_names: array.dimensionNames ?? null,
    };
    const seen = await zarr.get(array);
    if (array.shape.length === 0) {
      if (typeof seen === "string") return { ...told, objects: [seen] };
      return { ...told, numpy: NUMPY[array.dtype], base64: scalarBytes(seen, array.dtype).toString("base64") };
    }
    const data = inC(seen.data, seen.shape, seen.stride);
    if (Array.isArray(data)) return { ...told, objects: data };
    if (!NUMPY[array.dtype]) return { refused: `no numpy name for ${array.dtype}` };
    return { ...told, numpy: NUMPY[array.dtype], base64: bytesOf(data).toString("base64") };
  } catch (error) {
    return { refused: `${error.name}: ${error.message}` };
  }
}

async function answer(root) {
  const store = new Folder(root);
  const answers = {};
  for await (const path of arrays(root, "")) answers[path] = await see(store, path);
  return JSON.stringify(answers);
}

if (process.argv.length > 2) {
  process.stdout.write(await answer(process.argv[2]));
} else {
  for await (const line of createInterface({ input: process.stdin })) {
    const [root] = JSON.parse(line);
    process.stdout.write((await answer(root)) + "\n");
  }
}
