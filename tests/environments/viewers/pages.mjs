// Makes a page of each viewer, as it is published, in the folder `site` beside this file.
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const page = (name, head, body) =>
  writeFile(join(here, "site", name, "index.html"), `<!DOCTYPE html><html><head><meta charset="utf-8"><link rel="icon" href="data:,">${head}</head><body>${body}</body></html>`);

// neuroglancer is published as modules; bundled with the formats that zarrlift serves, as its README says.
const lib = join(here, "node_modules/neuroglancer/lib");
await build({
  // Where its modules look for its workers: one of them a folder above.
  entryPoints: ["neuroglancer/main", "neuroglancer/chunk_worker", "async_computation"].map((out) => ({
    in: `${lib}/${out.replace("neuroglancer/", "")}.bundle.js`,
    out: `${out}.bundle`,
  })),
  bundle: true,
  format: "esm",
  outdir: join(here, "site"),
  loader: { ".wasm": "file", ".html": "text" },
  conditions: [
    ...["datasource:none_by_default", "datasource/zarr:enabled", "datasource/n5:enabled"],
    ...["kvstore:none_by_default", "kvstore/http:enabled"],
  ].map((name) => `neuroglancer/${name}`),
  plugins: [{
    name: "no icons",
    setup(bundle) {
      bundle.onResolve({ filter: /\?raw$/ }, ({ path }) => ({ path, namespace: "icon" }));
      bundle.onLoad({ filter: /.*/, namespace: "icon" }, () => ({ contents: "<svg></svg>", loader: "text" }));
    },
  }],
});
await page("neuroglancer", '<link rel="stylesheet" href="main.bundle.css">', '<div id="neuroglancer-container"></div><script type="module" src="main.bundle.js"></script>');

// vizarr is published as the plug-in of a workbench, which names a data set; here `?source=` does, as on vizarr's own
// page. Its decoder of JPEG 2000 is elsewhere on the network, and is left out.
await mkdir(join(here, "site/vizarr"), { recursive: true });
const script = await readFile(join(here, "node_modules/@galaxyproject/vizarr/static/index.js"), "utf8");
const decoder = /import\{JpxImage as (\w+)\}from"https:[^"]+"/;
if (!decoder.test(script)) throw new Error("vizarr's import from elsewhere is another one");
await writeFile(join(here, "site/vizarr/index.js"), script.replace(decoder, "const $1=undefined"));
await page("vizarr", "", `<div id="app"></div><script>
const source = new URLSearchParams(location.search).get("source");
const dataset = JSON.stringify({ state: "deferred", name: "image", sources: [{ source_uri: source }] });
const root = "data:application/json," + encodeURIComponent(dataset) + "#";
document.querySelector("#app").setAttribute("data-incoming", JSON.stringify({ root, visualization_config: { dataset_id: "one" } }));
</script><script type="module" src="index.js"></script>`);
