import Foundation
import HealthReadings
import LogLines
import Logging
import ScriptedServer
import Synchronization
import Testing

@testable import VitalClient

@Suite("The tokens of a session, and where they are kept")
struct SessionStorageTests {
    /// A disk that is full until somebody makes room.
    final class Disk: VitalSessionStorage {
        struct Full: Error {}
        private let state: Mutex<(isFull: Bool, record: VitalSessionRecord?)>

        init(_ record: VitalSessionRecord?) { state = Mutex((true, record)) }

        var now: VitalSessionRecord? { state.withLock { $0.record } }
        func makeRoom() { state.withLock { $0.isFull = false } }
        func load() throws -> VitalSessionRecord? { now }
        func save(_ record: VitalSessionRecord) throws {
            try state.withLock { state in
                guard !state.isFull else { throw Full() }
                state.record = record
            }
        }
    }

    private func token() throws -> VitalSignInToken {
        let claims = Data(#"{"uid":"u-1"}"#.utf8).base64EncodedString()
        return try VitalSignInToken(
            Data(#"{"public_key":"k","user_token":"a.\#(claims).c"}"#.utf8).base64EncodedString())
    }

    /// Exchanges each refresh token once, as a server that rotates them does.
    private static func answers() -> ScriptedServer.Script {
        let used = Mutex(0)
        return { request in
            guard request.path == "/v1/token" else { return .json(200, #"{"providers":[]}"#) }
            let form = String(decoding: request.body, as: UTF8.self)
            return used.withLock { used in
                guard form.hasSuffix("refresh_token=refresh-\(used)") else {
                    return .json(401, #"{"detail":{"error_type":"reauthentication_required"}}"#)
                }
                used += 1
                return .json(
                    200, #"{"access_token":"access-\#(used)","refresh_token":"refresh-\#(used)","expires_in":3600}"#)
            }
        }
    }

    @Test("a refreshed session goes on from memory while the disk is full, and is written once there is room")
    func fullDisk() async throws {
        let token = try token()
        let disk = Disk(
            VitalSessionRecord(
                userID: "u-1", signInToken: token.secret.value, accessToken: "access-0", refreshToken: "refresh-0",
                expiresAt: 0))
        try await ScriptedServer.with(Self.answers()) { server in
            let log = LogLines()
            let session = VitalSession(signInToken: token, storage: disk, savingEvery: .milliseconds(20))
            let api = VitalAPI(
                server: try VitalServer(baseURL: server.baseURL), credentials: .session(session), recorder: nil,
                logger: log.logger(from: .trace))
            for _ in 0..<3 {
                #expect(await failure { _ = try await api.connectedSources(of: "u-1") } == nil)
            }
            #expect(server.requests.filter { $0.path == "/v1/token" }.count == 1)
            #expect(disk.now?.refreshToken == "refresh-0")
            #expect(log.text.contains("session") && !log.text.contains("refresh-") && !log.text.contains("access-"))
            disk.makeRoom()
            for _ in 0..<500 where disk.now?.refreshToken != "refresh-1" {
                try await Task.sleep(for: .milliseconds(10))
            }
            #expect(disk.now?.refreshToken == "refresh-1" && disk.now?.accessToken == "access-1")
        }
    }

    @Test(
        "a lifetime in a text counts; one that can't be read costs no session",
        arguments: [
            (#""7200""#, 7200), ("7200", 7200), (#""soon""#, 3600), ("null", 3600), ("{}", 3600), ("1e300", 3600),
        ])
    func lifetimes(text: String, seconds: Int) async throws {
        let token = try token()
        let disk = Disk(nil)
        disk.makeRoom()
        let answer = #"{"access_token":"access-1","refresh_token":"refresh-1","expires_in":\#(text)}"#
        try await ScriptedServer.with({ request in
            request.path == "/v1/token" ? .json(200, answer) : .json(200, #"{"providers":[]}"#)
        }) { server in
            let session = VitalSession(signInToken: token, storage: disk, now: { noon })
            let api = VitalAPI(
                server: try VitalServer(baseURL: server.baseURL), credentials: .session(session), recorder: nil,
                logger: LogLines().logger())
            let error = await failure { _ = try await api.connectedSources(of: "u-1") }
            #expect(error == nil)
            #expect(disk.now?.expiresAt == noon.seconds + Int64(seconds))
            #expect(server.requests.filter { $0.path == "/v1/token" }.count == 1)
        }
    }
}
