import Testing

@testable import GatewayService
