import Foundation
import GatewaySettings
import HealthReadings
import ReadingStore

extension Doctor {
    /// How old the newest backup is; `nil` if the settings name no place for any.
    func backupCheck() async -> DoctorCheck? {
        guard let setting = settings.backup else { return nil }
        let mend = "`healthrelay backup now` makes one, or says why not"
        guard case .success(let store?) = store, let gateway = try? await store.gatewayID() else {
            return .good("backup", "none yet in \(setting.directory)")
        }
        do throws(Problem) {
            let folder = BackupFolder(setting: setting, gateway: gateway, stateDirectory: stateDirectory)
            let backups = try await folder.backups()
            let now = await clock.judgingTime()
            let own = backups.filter(\.isOwn)
            guard let first = own.last, let newest = folder.newest(of: backups, now: now) else {
                return .bad("backup", .tryAgain, "this gateway has made none in \(setting.directory)", mend: mend)
            }
            let age = now.seconds - newest.time.seconds
            let isOnOtherDisk = try await DirectoryLook.at(setting.directory) { folder.isOnOtherDisk }
            let disk = isOnOtherDisk ? "" : " on the store's own disk"
            let found = "\(own.count) in \(setting.directory)\(disk), the newest \(Self.words(age)) old"
            let soundness = try? await DirectoryLook.working(in: setting.directory) {
                folder.soundness(of: newest.name, keeping: false)
            }
            if case .damaged? = soundness {
                return .bad(
                    "backup", .badData, "\(found), and damaged: \(newest.name)",
                    mend: "`healthrelay backup now` makes another; look after the disk that \(setting.directory) is on")
            }
            // One that failed is tried again every quarter of an hour.
            guard age <= Int64(setting.interval) + max(3600, Int64(setting.interval) / 4) else {
                return .bad("backup", .tryAgain, found, mend: mend)
            }
            // Those of before were made by the gateway that this one has taken the place of.
            let others = backups.count { !$0.isOwn && $0.time > first.time }
            guard others > 0 else { return .good("backup", found) }
            return .good(
                "backup", "\(found), and \(others) that another gateway with the same id has made meanwhile",
                mend: "give each a directory of its own, or stop the one that the other has taken the place of")
        } catch {
            return .bad("backup", error)
        }
    }

    private static func words(_ seconds: Int64) -> String {
        seconds < 7200 ? "\(seconds / 60) min" : seconds < 2 * 86_400 ? "\(seconds / 3600) h" : "\(seconds / 86_400) d"
    }
}
