// Answers questions about arrays with docs/transformers/extensions/zarrstack.ts, compiled beside this file: a JSON
// list of { objects: { key: hex }, path, keys, regions } from standard input; the same number of
// { error | chunks, ranges, regions, whole, alone } to standard output. `whole` lists the objects that were read
// whole, `alone` is the array as zarrita.js reads it by itself, if that is asked.
import { readFileSync } from "node:fs";
import * as zarr from "zarrita";
import { LayerError, openArray } from "./zarrstack.js";

const hex = (data) => (data === undefined ? null : Buffer.from(data).toString("hex"));

async function answer(of) {
  try {
    return await of();
  } catch (error) {
    if (error instanceof LayerError) return { refused: error.message };
    throw error;
  }
}

async function look({ objects, path, keys, regions, alone }) {
  const whole = [];
  const read = (key) => (key.slice(1) in objects ? Buffer.from(objects[key.slice(1)], "hex") : undefined);
  const store = {
    async get(key) {
      whole.push(key.slice(1));
      return read(key);
    },
    async getRange(key, range) {
      const data = read(key);
      if (data === undefined) return undefined;
      const start = "offset" in range ? range.offset : Math.max(0, data.length - range.suffixLength);
      return data.subarray(start, "offset" in range ? start + range.length : data.length);
    },
  };
  const array = await answer(() => openArray(store, `/${path}`));
  if ("refused" in array) return { error: array.refused };
  const found = { chunks: {}, ranges: {}, regions: [], whole };
  for (const key of keys) {
    found.chunks[key] = await answer(async () => hex(await array.store.get(`/${key}`)));
    found.ranges[key] = [];
    for (const range of [{ offset: 1, length: 2 }, { suffixLength: 1 }])
      found.ranges[key].push(await answer(async () => hex(await array.store.getRange(`/${key}`, range))));
  }
  for (const region of regions) {
    const selection = region.map(([start, stop]) => zarr.slice(start, stop));
    found.regions.push(
      await answer(async () => {
        const result = await zarr.get(array, selection);
        return typeof result === "number" ? [result] : [...result.data];
      }),
    );
  }
  if (alone) found.alone = [...(await zarr.get(await zarr.open(zarr.root(store).resolve(path)))).data];
  return found;
}

const questions = JSON.parse(readFileSync(0, "utf8"));
const answers = [];
for (const question of questions) answers.push(await look(question));
process.stdout.write(JSON.stringify(answers));
