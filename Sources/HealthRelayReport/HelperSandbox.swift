import CSandbox
import Glibc

/// What the helper keeps itself from: the files of the gateway, whose user it runs as, other programs and the network.
///
/// It reads libraries and fonts and nothing else, writes no file, starts no program, opens no socket, and ends when it needs more
/// memory or time than a report takes. A kernel without Landlock (before 5.13, or switched off) leaves it the files that its user
/// may read; without seccomp, sockets. The limits hold on every kernel.
enum HelperSandbox {
    /// A PDF of a year of a sensor takes some tens of megabytes beside the libraries.
    private static let memory: rlim_t = 1 << 30
    /// Seconds of the processor.
    private static let time: rlim_t = 60
    private static let readable = ["/usr", "/lib", "/lib64", "/etc/fonts", "/var/cache/fontconfig", "/proc/self"]
    private static let files = ["/etc/ld.so.cache", "/etc/localtime", "/dev/null", "/dev/urandom"]

    /// Enters it for good. Called before any other thread is started: Landlock and seccomp restrict the calling thread and its
    /// children.
    static func enter() {
        _ = csandbox_close_memory()
        limit(RLIMIT_CORE, 0)
        // Its output may be a file that another program has opened.
        limit(RLIMIT_FSIZE, rlim_t(4 * Input.most))
        limit(RLIMIT_AS, memory)
        limit(RLIMIT_CPU, time)
        let version = csandbox_landlock_version()
        if version > 0 {
            let rules = csandbox_landlock_begin(version)
            if rules >= 0 {
                for path in readable { _ = csandbox_landlock_allow(rules, path, csandbox_read) }
                for path in files { _ = csandbox_landlock_allow(rules, path, csandbox_read_file) }
                _ = csandbox_landlock_end(rules)
                close(rules)
            }
        }
        _ = csandbox_refuse_programs_and_sockets()
    }

    private static func limit(_ resource: __rlimit_resource, _ most: rlim_t) {
        var limit = rlimit(rlim_cur: most, rlim_max: most)
        setrlimit(__rlimit_resource_t(resource.rawValue), &limit)
    }
}
