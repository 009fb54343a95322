import ReadingDelivery
import Testing

@testable import GatewayCommands
@testable import GatewaySettings

@Suite("What a failed delivery ends with") struct DeliveryProblemTests {
    @Test(
        "a failed delivery ends with the status and the hint that fit it",
        arguments: [
            ("gone", true, Problem.ExitStatus.configuration, "address to use now"),
            ("private_address", true, .configuration, "`healthrelay destination test NAME`"),
            ("key_unusable", true, .configuration, "`healthrelay destination test NAME`"),
            ("no_patient", true, .configuration, "`healthrelay destination test NAME`"),
            ("no_token_endpoint", true, .configuration, "`healthrelay destination test NAME`"),
            ("not_enrolled", true, .configuration, "`healthrelay destination test NAME`"),
            ("wrong_version", true, .configuration, "`healthrelay destination test NAME`"),
            ("person_id_too_long", true, .configuration, "`healthrelay destination test NAME`"),
            ("authentication_failed", true, .notPermitted, "check the key"),
            ("forbidden", true, .notPermitted, "may do there"),
            ("untrusted_server", false, .unavailable, "certificate"),
            ("untrusted_server", true, .unavailable, "certificate"),
            ("redirected", true, .protocolBroken, "address that it sends to"),
            ("refused", true, .tryAgain, "`healthrelay destination test NAME`"),
            ("server_error", false, .tryAgain, "readings wait in the store"),
        ])
    func hints(code: String, needsPerson: Bool, status: Problem.ExitStatus, words: String) throws {
        let problem = Problem(
            DeliveryFailure(.destination, code: code, message: "it failed", needsPerson: needsPerson))
        #expect(problem.code == code && problem.status == status)
        let hint = try #require(problem.hint)
        #expect(hint.contains(words) && hint.contains("readings wait in the store"), "\(hint)")
        #expect(hint.contains("check the key") == (code == "authentication_failed"))
    }
}
