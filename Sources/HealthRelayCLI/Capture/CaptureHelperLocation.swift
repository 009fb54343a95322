import Foundation
import GatewayService

/// Where `healthrelay-capture` is.
enum CaptureHelperLocation {
    static let name = "healthrelay-capture"

    /// Beside this program, in the libexec folder of its installation, or in PATH.
    static func find() throws(Problem) -> String {
        let own = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let beside = own.map { URL(fileURLWithPath: $0).deletingLastPathComponent() }
        let near = beside.map { [$0, $0.appendingPathComponent("../libexec/healthrelay")] } ?? []
        let path = ProcessInfo.processInfo.environment["PATH"] ?? ""
        let named = path.split(separator: ":").filter { $0.hasPrefix("/") }.map { URL(fileURLWithPath: String($0)) }
        let places = (near + named).map { $0.appendingPathComponent(name).standardizedFileURL.path }
        if let found = places.first(where: { access($0, X_OK) == 0 && !isFolder($0) }) { return found }
        if let closed = places.first(where: { access($0, F_OK) == 0 && !isFolder($0) }) { throw notPermitted(closed) }
        throw Problem(
            "capture_helper_missing", .unavailable, "the program \(name) is not there",
            hint: "install it beside healthrelay or in \(near.last?.standardizedFileURL.path ?? "PATH")")
    }

    /// The program is not for this user: it is for a group.
    static func notPermitted(_ path: String) -> Problem {
        let attributes = try? FileManager.default.attributesOfItem(atPath: path)
        let group = attributes?[.groupOwnerAccountName] as? String
        return Problem(
            "capture_not_permitted", .notPermitted, "this user may not run \(path)",
            hint: group.map { "add the user to the group `\($0)`, and log in again" })
    }

    private static func isFolder(_ path: String) -> Bool {
        var isFolder: ObjCBool = false
        return FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) && isFolder.boolValue
    }
}
