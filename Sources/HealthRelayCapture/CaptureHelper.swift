import CBluetooth
import CSandbox
import Glibc
import HCIMonitor

/// `healthrelay-capture`: gives the kernel's HCI monitor to standard output as btsnoop, without keys.
///
/// A program of its own, because the monitor needs a capability that the gateway must not have. `healthrelay capture` starts
/// it and writes the file. It opens the channel, gives up every privilege, and goes on until it gets SIGINT or SIGTERM, or
/// the other end of its standard input or output is closed; the last record is whole. Standard error carries lines for
/// programs: see ``Report``. Exit statuses are those of sysexits.h.
@main
enum CaptureHelper {
    static func main() {
        // It sees keys on their way to being zeroed.
        _ = csandbox_close_memory()
        do throws(CaptureFailure) {
            try run()
            exit(0)
        } catch {
            Report.problem(error)
            exit(error.status)
        }
    }

    private static func run() throws(CaptureFailure) {
        let options = try CaptureOptions(Array(CommandLine.arguments.dropFirst()))
        if options.isHelpWanted { return Report.help(CaptureOptions.help) }
        guard isatty(1) == 0 else {
            throw .usage("standard output is a terminal, and a capture is binary. Use `healthrelay capture FILE`")
        }
        signal(SIGPIPE, SIG_IGN)
        let channel = try MonitorChannel.open(options)
        let selection = channel.selection
        try Privileges.drop()
        Report.note("adapter", "hci\(selection.adapter)")
        var pump = try MonitorPump(channel, MonitorRecorder(selection))
        try pump.run()
        Report.total("packets", pump.recorder.packets)
        Report.total("dropped", UInt64(pump.recorder.dropped))
    }
}
