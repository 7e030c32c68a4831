//! A PostgreSQL server of this process's own, in a folder that is gone afterwards.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs};

/// Names a server instead, by an address of a user who may create databases.
pub(crate) const VARIABLE: &str = "TIMINGWHEEL_POSTGRES";

const MISSING: &str = "PostgreSQL is needed: install it (on Debian `apt-get install postgresql`), or set \
    TIMINGWHEEL_POSTGRES to the address of a server, such as postgres://user@localhost/postgres, whose user may create \
    databases";

/// A server that ends with this process, however that ends.
pub(crate) struct Server {
    folder: PathBuf,
    /// Holds the server's life: when it is closed, the server stops.
    life: Option<Child>,
    port: u16,
    user: Option<(u32, u32)>,
    connections: u16,
}

/// Where `initdb` and `postgres` are.
fn programs() -> PathBuf {
    let mut candidates: Vec<PathBuf> = Vec::new();
    if let Ok(told) = Command::new("pg_config").arg("--bindir").output() {
        candidates.push(String::from_utf8_lossy(&told.stdout).trim().into());
    }
    let mut debian: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .map(|versions| versions.flatten().map(|version| version.path().join("bin")).collect())
        .unwrap_or_default();
    // The newest.
    debian.sort_by_key(|path| {
        let version = path
            .parent()
            .and_then(Path::file_name)
            .and_then(|name| name.to_str()?.split('.').next()?.parse::<u32>().ok());
        version.unwrap_or(0)
    });
    candidates.extend(debian.into_iter().rev());
    candidates.extend(env::var_os("PATH").iter().flat_map(env::split_paths));
    candidates.into_iter().find(|path| path.join("initdb").exists()).expect(MISSING)
}

/// The server refuses to run as root: then it runs as its package's user, or as nobody.
fn user(folder: &Path) -> Option<(u32, u32)> {
    use std::os::unix::fs::MetadataExt;
    if fs::metadata(folder).expect("a folder").uid() != 0 {
        return None;
    }
    let passwd = fs::read_to_string("/etc/passwd").expect("a list of users");
    let find = |name: &str| {
        let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut ids = line.split(':').skip(2);
        Some((ids.next()?.parse().ok()?, ids.next()?.parse().ok()?))
    };
    Some(
        find("postgres")
            .or_else(|| find("nobody"))
            .expect("a user `postgres` or `nobody`, as root may not run it"),
    )
}

impl Server {
    /// Starts one. In memory, where the system has files there: what is proved here needs no disk.
    pub(crate) fn start() -> Self {
        Self::with_connections(300)
    }

    /// Starts one that takes so many connections.
    pub(crate) fn with_connections(connections: u16) -> Self {
        let programs = programs();
        let memory = PathBuf::from("/dev/shm");
        // To sync files in memory costs nothing.
        let syncs = env::var("FSYNC").is_ok_and(|fsync| fsync == "on");
        let base = if memory.is_dir() && !syncs { memory } else { env::temp_dir() };
        let folder =
            tempfile::Builder::new().prefix("timingwheel-pg-").tempdir_in(base).expect("a folder").keep();
        let user = user(&folder);
        if let Some((uid, gid)) = user {
            std::os::unix::fs::chown(&folder, Some(uid), Some(gid)).expect("a folder of the server's user");
        }
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("a folder to look into");
        // Free now; if somebody takes it meanwhile, the server says so.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        let mut server = Self { folder, life: None, port, user, connections };
        let data = server.data();
        let made = server
            .command(&programs.join("initdb"))
            .args(["-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "-N", "-D"])
            .arg(&data)
            .output()
            .expect("initdb runs");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        server.run();
        server
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir("/").env_remove("PGDATA").env("LC_ALL", "C");
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        command
    }

    /// Starts it again on the same folder and port, after `stop`.
    pub(crate) fn run(&mut self) {
        let log = self.folder.join("log");
        // `cat` reads until this process closes the pipe, or ends.
        let script = r#"postgres=$1 data=$2 port=$3 log=$4 folder=$5 connections=$6
            "$postgres" -D "$data" -p "$port" -k "$folder" -c listen_addresses=127.0.0.1 -c max_connections=$connections \
                -c fsync=${FSYNC:-off} -c shared_buffers=256MB -c max_wal_size=4GB -c log_min_messages=warning \
                >>"$log" 2>&1 </dev/null &
            pid=$!
            how=$(cat)
            if [ "$how" = kill ]; then kill -KILL $pid; else kill -INT $pid; fi
            wait $pid
            [ -n "$how" ] || rm -rf "$folder""#;
        let mut command = self.command(Path::new("/bin/sh"));
        command.args(["-c", script, "sh"]).arg(programs().join("postgres")).arg(self.data());
        command.arg(self.port.to_string()).arg(log).arg(&self.folder).arg(self.connections.to_string());
        let life = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.life = Some(life.expect("a shell"));
        let begin = Instant::now();
        while !self.answers() {
            let log = || fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(begin.elapsed() < Duration::from_secs(60), "the server does not start: {}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn answers(&self) -> bool {
        let ready = self
            .command(&programs().join("pg_isready"))
            .args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "postgres", "-d", "postgres"])
            .status();
        ready.is_ok_and(|status| status.success())
    }

    /// Ends it in order, and keeps its folder.
    pub(crate) fn stop(&mut self, how: &str) {
        let mut life = self.life.take().expect("it runs");
        drop(life.stdin.take().map(|mut pipe| pipe.write_all(how.as_bytes())));
        life.wait().expect("it ends");
        if how == "kill" {
            // Its children notice by and by, and hold its memory until then.
            let begin = Instant::now();
            while self.has_processes() {
                assert!(begin.elapsed() < Duration::from_secs(60), "the server's processes do not end");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    /// Whether any process works in the folder of the data, as all of a server's do.
    fn has_processes(&self) -> bool {
        !self.processes().is_empty()
    }

    /// How much time of processors the server has taken, those of its processes included that have ended.
    pub(crate) fn cpu(&self) -> Duration {
        let file = fs::read_to_string(self.data().join("postmaster.pid")).expect("the server runs");
        let first = file.lines().next().expect("its process").to_owned();
        let ticks_of = |process: PathBuf| {
            // One may end meanwhile.
            let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
            let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11);
            // Its own, and, of the first, those of its children that have ended.
            let count = if process.ends_with(&first) { 4 } else { 2 };
            fields.take(count).map(|field| field.parse::<u64>().expect("a number")).sum::<u64>()
        };
        // Linux counts hundredths of a second.
        Duration::from_millis(self.processes().into_iter().map(ticks_of).sum::<u64>() * 10)
    }

    fn processes(&self) -> Vec<PathBuf> {
        let data = self.data();
        let processes = fs::read_dir("/proc").expect("a list of processes").flatten();
        let paths = processes.map(|process| process.path());
        paths.filter(|process| fs::read_link(process.join("cwd")).is_ok_and(|at| at == data)).collect()
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A program of the server's package.
    pub(crate) fn program(&self, name: &str) -> Command {
        self.command(&programs().join(name))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut life) = self.life.take() {
            drop(life.stdin.take());
            let _ = life.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The address of a new, empty database, on the server that is named or on that of this process.
pub(crate) async fn database() -> String {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let server =
        SERVER.get_or_init(|| if env::var_os(VARIABLE).is_some() { None } else { Some(Server::start()) });
    let admin =
        server.as_ref().map_or_else(|| env::var(VARIABLE).expect("an address"), |own| own.url("postgres"));
    let name = format!("timers_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let (client, connection) = tokio_postgres::connect(&admin, tokio_postgres::NoTls)
        .await
        .unwrap_or_else(|error| panic!("{MISSING}: {error}"));
    let connection = tokio::spawn(connection);
    client.batch_execute(&format!("create database {name}")).await.expect("a database");
    connection.abort();
    let mut url: String = admin;
    let end = url.rfind('/').filter(|slash| *slash > "postgres://".len()).unwrap_or(url.len());
    url.truncate(end);
    format!("{url}/{name}")
}
