//! A build's files in a folder that is named by what they hold, so that files of two builds never meet: not in a browser's cache,
//! not where a host changes them while a page is open.
//!
//! Invariant: changes no file but index.html, and in that only the folder that its addresses begin with.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};

/// What stays beside the folder: the page itself, the service worker, which answers only for its own folder and those below, and
/// what others refer to by its address.
const STAY: [&str; 3] = ["index.html", "service_worker.js", "nucleus.d.ts"];

/// The list of the folder's other files, each with its hash, by which the service worker knows a build to be whole.
const HASHES: &str = "hashes.json";

/// Moves the files of `dist` into `build-HASH/`, lists them there in `hashes.json`, and has index.html name the folder.
pub fn move_into(dist: &Path) -> Result<()> {
    let index_path = dist.join("index.html");
    let index = fs::read_to_string(&index_path).context("the build left no index.html")?;
    let mut hashes = BTreeMap::new();
    for entry in fs::read_dir(dist)? {
        let entry = entry?;
        let name = entry.file_name().into_string().ok().context("a file's name is not UTF-8")?;
        if entry.file_type()?.is_file() && !STAY.contains(&name.as_str()) {
            hashes.insert(name, integrity(&fs::read(entry.path())?));
        }
    }
    let lines: Vec<_> = hashes.iter().map(|(name, hash)| format!("  {name:?}: {hash:?}")).collect();
    let list = format!("{{\n{}\n}}\n", lines.join(",\n"));
    let name = folder_name(&index, &list);
    let folder = dist.join(&name);
    fs::create_dir(&folder)?;
    for file in hashes.keys() {
        fs::rename(dist.join(file), folder.join(file))?;
    }
    fs::write(folder.join(HASHES), list)?;
    // Every address in index.html that begins so is one of the build's files; text does not.
    let moved = index.replace("=\"./", &format!("=\"./{name}/"));
    ensure!(moved.contains(&format!("./{name}/page_loader.js")), "index.html does not start page_loader.js");
    Ok(fs::write(index_path, moved)?)
}

/// 64 bits of a hash over all that is in the build.
fn folder_name(index: &str, list: &str) -> String {
    let hash = Sha256::new().chain_update(index).chain_update(list).finalize();
    let digits: String = hash[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("build-{digits}")
}

/// As the browser's `integrity` takes it.
fn integrity(bytes: &[u8]) -> String {
    format!("sha256-{}", base64::encode(Sha256::digest(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder as Trunk leaves it; `page` is what one of its files holds. Returns the name of the build's folder.
    fn laid_out(dist: &Path, page: &str) -> String {
        fs::create_dir(dist).unwrap();
        let index = r#"<link rel="stylesheet" href="./style.css"/><script src="./page_loader.js"></script> ./text"#;
        for (name, text) in
            [("index.html", index), ("service_worker.js", ""), ("style.css", ""), ("page_loader.js", page)]
        {
            fs::write(dist.join(name), text).unwrap();
        }
        move_into(dist).unwrap();
        let entries = fs::read_dir(dist).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut folders: Vec<_> = entries.filter(|name| name.starts_with("build-")).collect();
        assert_eq!(folders.len(), 1);
        folders.remove(0)
    }

    #[test]
    fn a_build_moves_into_a_folder_named_by_its_files() {
        let scratch = std::env::temp_dir().join(format!("nucleus-build-folder-{}", std::process::id()));
        fs::create_dir(&scratch).unwrap();
        let name = laid_out(&scratch.join("a"), "abc");
        let index = fs::read_to_string(scratch.join("a/index.html")).unwrap();
        let list = fs::read_to_string(scratch.join("a").join(&name).join(HASHES)).unwrap();
        let stayed = scratch.join("a/service_worker.js").is_file() && !scratch.join("a/style.css").exists();
        let again = laid_out(&scratch.join("b"), "abc");
        let other = laid_out(&scratch.join("c"), "abd");
        fs::remove_dir_all(&scratch).unwrap();

        assert!(index.contains(&format!(r#"href="./{name}/style.css""#)), "{index}");
        assert!(index.contains(&format!(r#"src="./{name}/page_loader.js""#)), "{index}");
        assert!(index.ends_with(" ./text"), "{index}");
        assert!(stayed);
        // FIPS 180-2, appendix B.1, in base64.
        let expected = r#""page_loader.js": "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=""#;
        assert!(list.contains(expected), "{list}");
        assert!(list.starts_with("{\n  \"page_loader.js\"") && !list.contains("index.html"), "{list}");
        assert_eq!(again, name);
        assert_ne!(other, name);
    }
}
