import Testing
@testable import GATTClient
