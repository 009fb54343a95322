import EmulatedPhone
import Foundation
import HealthReadings
import Testing

@testable import HealthSyncClient

@Suite("Talking to a phone", .timeLimit(.minutes(2))) struct ExchangeTests {
    @Test("it pairs by what the QR code holds, and asks for status and types")
    func course() async throws {
        let bench = try await Bench()
        let payload = try PairingPayload(json: bench.phone.showCode("Qr5tU7wX"))
        let pairing = try await bench.client.pair(payload.code, as: "gateway")
        #expect(pairing.expiresAt > Instant.systemClock.advanced(bySeconds: 29 * 86_400))
        let status = try await bench.client.status(pairing.token)
        #expect(status.deviceName == "Ann's iPhone" && status.status == "ok" && status.version == "1")
        #expect(try await bench.client.types(pairing.token) == status.enabledTypes)
        let request = try #require(bench.phone.requests.first)
        #expect(
            request.members["code"] as? String == "Qr5tU7wX" && request.members["clientName"] as? String == "gateway")
        #expect(request.headers["authorization"] == nil && request.headers["host"] == "127.0.0.1:\(bench.phone.port)")
        // The code is good once.
        await #expect { try await bench.client.pair(payload.code, as: "gateway") } throws: { error in
            let error = error as? HealthSyncError
            return error?.code == "pairing_refused" && error?.detail?.contains("Generate a new QR code") == true
        }
        await bench.phone.stop()
    }

    @Test("a server with another certificate is sent nothing")
    func wrongCertificate() async throws {
        let bench = try await Bench()
        let other = try PhoneCertificate()
        let stranger = HealthSyncPhone(
            host: "127.0.0.1", port: bench.phone.port,
            fingerprint: try CertificateFingerprint(other.fingerprint).orThrow())
        await #expect { try await stranger.status(bench.token) } throws: { error in
            let error = error as? HealthSyncError
            return error?.code == "wrong_certificate"
                && error?.detail?.contains(bench.phone.certificate.fingerprint) == true
        }
        await #expect(throws: HealthSyncError.self) { try await stranger.pair("Ab3dE7gH", as: "gateway") }
        #expect(bench.phone.connections == 2 && bench.phone.requests.isEmpty)
        await bench.phone.stop()
    }

    @Test("an expired certificate is the phone's all the same; TLS 1.2 is refused")
    func certificates() async throws {
        let expired = try PhoneCertificate(notAfter: Date(timeIntervalSinceNow: -86_400))
        let phone = try await EmulatedPhone.start(certificate: expired)
        let token = try PhoneToken(phone.token()).orThrow()
        let client = try HealthSyncPhone(PairingPayload(json: phone.showCode()))
        #expect(try await client.status(token).deviceName == "Ann's iPhone")
        await phone.stop()
        let old = try await EmulatedPhone.start(certificate: expired, speaksOldTLS: true)
        let refusing = try HealthSyncPhone(PairingPayload(json: old.showCode()))
        await #expect { try await refusing.status(token) } throws: {
            ($0 as? HealthSyncError)?.code == "untrusted_server"
        }
        #expect(old.requests.isEmpty)
        await old.stop()
    }

    @Test(
        "each refusal has its name",
        arguments: [
            (401, "token_expired"), (403, "type_not_enabled"), (413, "payload_too_large"), (423, "phone_locked"),
            (404, "refused"), (302, "redirected"), (418, "refused"),
        ])
    func refusals(status: Int, code: String) async throws {
        let bench = try await Bench()
        bench.phone.change { state in
            state.fault = { _, reply in
                reply = .refusal(status, "Reason", "words of the phone")
                reply.headers["Location"] = "https://127.0.0.1:1/elsewhere"
            }
        }
        await #expect { try await bench.client.status(bench.token) } throws: { error in
            let error = error as? HealthSyncError
            return error?.code == code && error?.status == status && error?.detail == "words of the phone"
        }
        #expect(bench.phone.requests.count == 1)
        await bench.phone.stop()
    }

    @Test("a token that the phone echoes, and what would retitle a terminal, is not shown")
    func echo() async throws {
        let bench = try await Bench()
        let secret = bench.token.value
        bench.phone.change { state in
            state.fault = { request, reply in
                reply = .refusal(
                    401, "Unauthorized", "no \u{1B}]0;x\u{7} such token \(request.headers["authorization"] ?? "")")
            }
        }
        await #expect { try await bench.client.status(bench.token) } throws: { error in
            let words = "\(error)"
            return !words.contains(secret) && !words.contains("\u{1B}") && words.contains("****")
        }
        #expect(!"\(bench.token) \(String(reflecting: bench.token))".contains(secret))
        await bench.phone.stop()
    }

    @Test("an error shows no value and no token of an answer that is no JSON only further on")
    func silence() async throws {
        let bench = try await Bench { $0.retries = 0 }
        bench.phone.change { state in
            state.fault = { _, reply in
                reply = PhoneReply()
                reply.body = Data(#"{"token":"s3cret","samples":[{"value":63,"value":64}]}"#.utf8)
            }
        }
        for pairs in [true, false] {
            do {
                if pairs {
                    _ = try await bench.client.pair("Ab3dE7gH", as: "gateway")
                } else {
                    _ = try await bench.client.types(bench.token)
                }
                Issue.record("the answer was read")
            } catch let error as HealthSyncError {
                #expect(error.code == "not_json")
                #expect(!"\(error)".contains("s3cret") && !"\(error)".contains("63"), "\(error)")
            }
        }
        await bench.phone.stop()
    }

    @Test("HTML, garbage, a cut document and a wrong shape are told apart")
    func answers() async throws {
        let bench = try await Bench { $0.retries = 0 }
        func code(_ body: String, _ change: @escaping @Sendable (inout PhoneReply) -> Void = { _ in }) async -> String?
        {
            bench.phone.change { state in
                state.fault = { _, reply in
                    reply.body = Data(body.utf8)
                    change(&reply)
                }
            }
            do {
                _ = try await bench.client.types(bench.token)
                return nil
            } catch {
                return (error as? HealthSyncError)?.code
            }
        }
        #expect(await code("<!DOCTYPE html><p>Welcome to our Wi-Fi") { $0.type = "text/html" } == "not_json")
        #expect(await code("\u{0}\u{1}garbage") == "not_json")
        #expect(await code("") == "not_json")
        #expect(await code("[]") == "unexpected_answer")
        #expect(await code(#"{"enabledTypes":["a b"]}"#) == "unexpected_answer")
        #expect(await code(#"{"enabledTypes":[1]}"#) == "unexpected_answer")
        #expect(await code(#"{"enabledTypes":["steps"],"enabledTypes":[]}"#) == "not_json")
        #expect(await code(#"{"enabledTypes":["steps"]}"#) { $0.breaksAfter = 10 } == "connection_lost")
        #expect(
            await code(#"{"enabledTypes":["steps"]}"#) {
                $0.breaksAfter = 20
                $0.tellsLength = false
            } == "connection_lost")
        #expect(await code(#"{"enabledTypes":["steps"]}"#) == nil)
        await bench.phone.stop()
    }

    @Test("an answer that is too large or never comes ends in its time; a cancelled request at once")
    func bounds() async throws {
        let bench = try await Bench {
            $0.responseBytes = 4096
            $0.call = .milliseconds(300)
            $0.retries = 0
        }
        bench.phone.change { $0.fault = { _, reply in reply.body = Data(repeating: 0x20, count: 5000) } }
        await #expect { try await bench.client.status(bench.token) } throws: {
            ($0 as? HealthSyncError)?.code == "answer_too_large"
        }
        bench.phone.change { $0.fault = { _, reply in reply.isSilent = true } }
        await #expect { try await bench.client.status(bench.token) } throws: {
            ($0 as? HealthSyncError)?.code == "timeout"
        }
        let task = Task { try await bench.client.status(bench.token) }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        await bench.phone.stop()
        await #expect { try await bench.client.status(bench.token) } throws: {
            ($0 as? HealthSyncError)?.code == "no_connection"
        }
    }

    @Test("a broken connection is tried again, so often")
    func retries() async throws {
        let bench = try await Bench()
        bench.phone.change { $0.fault = { request, reply in if request.number < 2 { reply.breaksAfter = 3 } } }
        #expect(try await bench.client.status(bench.token).status == "ok")
        #expect(bench.phone.requests.count == 3)
        bench.phone.change { $0.fault = { _, reply in reply.breaksAfter = 3 } }
        await #expect { try await bench.client.status(bench.token) } throws: {
            ($0 as? HealthSyncError)?.code == "connection_lost"
        }
        #expect(bench.phone.requests.count == 7)
        await bench.phone.stop()
    }
}
